"""Functions that `torch.compile` must not trace, and inputs that `torch.export` cannot."""

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

import torch

_P = ParamSpec("_P")
_R = TypeVar("_R")


def uncompiled(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Keep `torch.compile` out of a function and of all that it calls.

    It is `torch.compiler.disable`, applied when a caller is first compiled: that imports the
    compiler, which takes as long as importing the rest of torch.
    """
    disabled: Callable[_P, _R] | None = None

    @wraps(function)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        nonlocal disabled
        if not torch.compiler.is_compiling():
            return function(*args, **kwargs)
        if disabled is None:
            disabled = torch.compiler.disable(function)
        return disabled(*args, **kwargs)

    return call


def refuse_export(name: str) -> None:
    """Refuse to be traced by `torch.export` where an input's values decide the shapes of tensors.

    Args:
        name: The input.

    Raises:
        RuntimeError: `torch.export` is tracing.
    """
    if torch.compiler.is_exporting():
        raise RuntimeError(
            f"torch.export cannot trace this model, since shapes inside it depend on the values "
            f"of {name}: use torch.compile, or restore a model that was sped up"
        )
