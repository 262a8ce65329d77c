"""`foveate train`."""

from pathlib import Path
from typing import Annotated

import typer

from . import common


def command(
    recipe: Annotated[
        str | None,
        typer.Argument(
            metavar="RECIPE",
            help="A YAML file, or the name of an installed recipe.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FOLDER",
            help="Folder for checkpoints and the model. Default: the recipe's name.",
            show_default=False,
        ),
    ] = None,
    overrides: common.Overrides = None,
    recipes: Annotated[bool, typer.Option("--recipes", help="List the installed recipes.")] = False,
) -> None:
    """Train a model with a recipe; an interrupted run resumes where it stopped.

    \b
    foveate train --recipes
    foveate train hdt-e --set data.train=corpus --set model.num_layers=6
    torchrun --nproc-per-node 4 --no-python foveate train recipe.yaml -o model
    """
    from foveate.training.recipes import describe_recipe, find_recipe, recipe_names

    if recipes:
        width = max(map(len, recipe_names()))
        for name in recipe_names():
            common.console.print(f"{name:{width}}  {describe_recipe(name)}", markup=False)
        return
    if recipe is None:
        raise ValueError("name a recipe, or list the installed ones with --recipes")
    find_recipe(recipe)  # fails before the Trainer, which takes seconds to import
    from foveate.training import Recipe, train

    train(Recipe.load(recipe, overrides or []), output or Path(Path(recipe).stem))
