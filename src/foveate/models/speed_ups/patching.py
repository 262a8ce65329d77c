"""Patches: transformers modules that compute the same with another class, until restored.

A module is patched in place, by assigning its `__class__`: a subclass computes what the original
class computes from the same parameters, so that the rest of the model, its parameters and their
names stay. Copies, pickles and replicas of a patched model are patched too.
"""

import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from torch import nn


class ConfigView:
    """A configuration with another attention implementation, and otherwise always the same.

    Fields are read from the configuration that it stands for, and set there: a model shares it with
    its parts, of which only some are patched, and other models may share it too.

    Args:
        config: The configuration.
        attn_implementation: The attention implementation.
    """

    def __init__(self, config: Any, attn_implementation: str) -> None:
        vars(self).update(viewed=config, _attn_implementation=attn_implementation)

    @property  # type: ignore[misc] # so that isinstance finds a configuration
    def __class__(self) -> type:
        return type(self.viewed)

    def __getattr__(self, name: str) -> Any:
        return getattr(vars(self)["viewed"], name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.viewed, name, value)

    def __reduce__(self) -> tuple[Any, ...]:
        return ConfigView, (self.viewed, self._attn_implementation)

    def __repr__(self) -> str:
        return repr(self.viewed)


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
        if self.attn_implementation is not None and not _has_view(module):
            _replace_config(module, ConfigView(module.config, self.attn_implementation))
        module.__class__ = self.replacement

    def revert(self, module: Any) -> None:
        """Restore a module that `is_applied_to`."""
        module.__class__ = self.original
        if self.attn_implementation is not None:
            _replace_config(module, module.config.viewed)

    def is_applied_to(self, module: nn.Module) -> bool:
        """Return whether a module is patched by this patch."""
        if type(module) is not self.replacement:
            return False
        return self.attn_implementation is None or _has_view(module)


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


def _has_view(module: Any) -> bool:
    return type(module.config) is ConfigView  # isinstance would ask the view for its class


def _replace_config(module: Any, config: Any) -> None:
    """Replace the configuration of a module, and of all of its parts that share it."""
    original = module.config
    for part in module.modules():
        if getattr(part, "config", None) is original:
            part.config = config
