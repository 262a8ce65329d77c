"""Patches: transformers modules that compute the same with another class, until restored.

A module is patched in place, by assigning its `__class__`: a subclass computes what the original
class computes from the same parameters, so that the rest of the model, its parameters and their
names stay. Copies, pickles and replicas of a patched model are patched too.
"""

import warnings
from collections.abc import Callable, Iterable
from copy import copy
from dataclasses import dataclass
from typing import Any

from torch import nn

_ORIGINAL_CONFIG = "_config_before_speed_up"


def _always(module: Any) -> bool:
    return True


@dataclass(frozen=True)
class Patch:
    """A replacement for modules of one class.

    Attributes:
        original: The class of transformers. Modules of its subclasses are not patched.
        replacement: The class that replaces it; `original` where only the masks change.
        attn_implementation: The attention implementation by which the module builds its masks from
            then on, None for its own.
        applies_to: Whether a module of the class can be patched.
    """

    original: type[nn.Module]
    replacement: type[nn.Module]
    attn_implementation: str | None = None
    applies_to: Callable[[Any], bool] = _always

    def apply(self, module: Any) -> None:
        """Patch a module of the class `original`."""
        if self.attn_implementation is not None and not hasattr(module, _ORIGINAL_CONFIG):
            setattr(module, _ORIGINAL_CONFIG, module.config)
            config = copy(module.config)  # other models may share the original
            config._attn_implementation = self.attn_implementation
            _replace_config(module, config)
        module.__class__ = self.replacement

    def revert(self, module: Any) -> None:
        """Restore a module that `is_applied_to`."""
        module.__class__ = self.original
        if hasattr(module, _ORIGINAL_CONFIG):
            _replace_config(module, getattr(module, _ORIGINAL_CONFIG))
            delattr(module, _ORIGINAL_CONFIG)

    def is_applied_to(self, module: nn.Module) -> bool:
        """Return whether a module is patched by this patch."""
        if type(module) is not self.replacement:
            return False
        return self.attn_implementation is None or hasattr(module, _ORIGINAL_CONFIG)


def apply_patches(model: nn.Module, patches: Iterable[Patch]) -> None:
    """Patch all modules of a model that have an entry in a table of patches."""
    by_original = {patch.original: patch for patch in patches}
    for module in list(model.modules()):
        patch = by_original.get(type(module))
        if patch is not None and patch.applies_to(module):
            patch.apply(module)


def warn_of_slow_weights() -> None:
    """Warn that a patched model computes attention weights with its original classes."""
    warnings.warn(
        "attention weights are requested: this model computes them without its speed-up",
        stacklevel=3,
    )


def _replace_config(module: Any, config: Any) -> None:
    """Replace the configuration of a module, and of all of its parts that share it."""
    original = module.config
    for part in module.modules():
        if getattr(part, "config", None) is original:
            part.config = config
