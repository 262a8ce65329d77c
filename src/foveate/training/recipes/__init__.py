"""The recipes that are installed with the package."""

from pathlib import Path


def recipe_names() -> list[str]:
    """List the names of the installed recipes."""
    return sorted(path.stem for path in Path(__file__).parent.glob("*.yaml"))


def recipe_path(name: str) -> Path:
    """Return the YAML file of an installed recipe.

    Raises:
        FileNotFoundError: There is no such recipe.
    """
    if name not in recipe_names():
        raise FileNotFoundError(
            f"there is no recipe {name!r}: name a .yaml file or one of {', '.join(recipe_names())}"
        )
    return Path(__file__).parent / f"{name}.yaml"
