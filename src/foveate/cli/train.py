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
            help="A YAML file, or the name of a recipe that comes along.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FOLDER",
            help="Where checkpoints and the model go; default: the recipe's name.",
            show_default=False,
        ),
    ] = None,
    changes: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="ENTRY=VALUE",
            help="Change an entry, such as training.max_steps=100; may be repeated.",
            show_default=False,
        ),
    ] = None,
    recipes: Annotated[
        bool, typer.Option("--recipes", help="List the recipes that come along.")
    ] = False,
) -> None:
    """Train a model by a recipe; a run that was broken off goes on where it was.

    \b
    foveate train --recipes
    foveate train hdt-e --set data.train=corpus --set model.num_layers=6
    torchrun --nproc-per-node 4 --no-python foveate train recipe.yaml --output model
    """
    from foveate.training.recipe import Recipe, names

    if recipes:
        common.console.print("\n".join(names()))
        return
    if recipe is None:
        raise typer.BadParameter("name a recipe, or list those that come along by --recipes")
    loaded = Recipe.load(recipe, changes or [])
    from foveate.evaluation import read
    from foveate.training.run import train

    train(loaded, output or Path(Path(recipe).stem), read)
