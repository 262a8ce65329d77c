"""Functions that `torch.compile` must not trace."""

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
