"""Training with transformers' Trainer: objectives, data loading and recipes."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .recipes import recipe_names

if TYPE_CHECKING:
    from .recipe import Recipe
    from .run import build_trainer, train

__all__ = ["Recipe", "build_trainer", "recipe_names", "train"]

# Loaded when they are first used, so that listing recipes does not wait for the Trainer.
_MODULE_OF = {"Recipe": "recipe", "build_trainer": "run", "train": "run"}


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
