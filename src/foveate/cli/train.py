"""`foveate train`."""

from dataclasses import dataclass
from pathlib import Path

from foveate.tasks.parameters import parameter

from . import common
from .command import Command

OVERRIDES = "Change an entry of the recipe, such as training.max_steps=100; may be repeated."


@dataclass(kw_only=True)
class TrainCommand(Command):
    """Train a model with a recipe; an interrupted run resumes where it stopped.

    \b
    foveate train --recipes
    foveate train hdt-e --set data.train=corpus --set model.num_layers=6
    torchrun --nproc-per-node 4 --no-python foveate train recipe.yaml -o model
    """

    recipe: str | None = parameter(
        "A YAML file, or the name of an installed recipe.", None, metavar="RECIPE", is_argument=True
    )
    output: Path | None = parameter(
        "Folder for checkpoints and the model. Default: the recipe's name.",
        None,
        short="-o",
        metavar="FOLDER",
    )
    overrides: list[str] | None = parameter(OVERRIDES, None, name="set", metavar="ENTRY=VALUE")
    recipes: bool = parameter("List the installed recipes.", False)

    def __call__(self) -> None:
        from foveate.training.recipes import describe_recipe, find_recipe, recipe_names

        if self.recipes:
            width = max(map(len, recipe_names()))
            for name in recipe_names():
                common.console.print(f"{name:{width}}  {describe_recipe(name)}", markup=False)
            return
        if self.recipe is None:
            raise ValueError("name a recipe, or list the installed ones with --recipes")
        find_recipe(self.recipe)  # fails before the Trainer, which takes seconds to import
        from foveate.training import Recipe, train

        output = self.output or Path(Path(self.recipe).stem)
        train(Recipe.load(self.recipe, self.overrides or []), output)
