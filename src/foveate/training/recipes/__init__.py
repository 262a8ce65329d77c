"""The recipes that are installed with the package."""

from itertools import takewhile
from os import PathLike
from pathlib import Path


def recipe_names() -> list[str]:
    """List the names of the installed recipes."""
    return sorted(path.stem for path in Path(__file__).parent.glob("*.yaml"))


def describe_recipe(name: str) -> str:
    """Return the first sentence of the comment that an installed recipe begins with."""
    lines = find_recipe(name).read_text(encoding="utf-8").splitlines()
    comment = " ".join(line[2:] for line in takewhile(lambda line: line.startswith("#"), lines))
    return comment.partition(". ")[0].removesuffix(".") + "."


def find_recipe(name: str | PathLike[str]) -> Path:
    """Return the YAML file of a recipe.

    Args:
        name: A YAML file, or the name of an installed recipe.

    Raises:
        FileNotFoundError: There is no such file or recipe.
    """
    path = Path(name)
    if path.suffix in (".yaml", ".yml"):
        if not path.exists():
            raise FileNotFoundError(
                f"{path} does not exist: check the path, or name one of {', '.join(recipe_names())}"
            )
        return path
    if str(name) not in recipe_names():
        raise FileNotFoundError(
            f"there is no recipe {str(name)!r}: name a .yaml file or one of "
            f"{', '.join(recipe_names())}"
        )
    return Path(__file__).parent / f"{name}.yaml"
