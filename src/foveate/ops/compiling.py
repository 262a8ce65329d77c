"""What `torch.compile` must not trace, and what `torch.export` cannot."""

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import ParamSpec, TypeVar, cast

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


def cached(maxsize: int) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """Cache like `functools.lru_cache`, and refuse to be traced by `torch.export`.

    For tables that the host builds, from which numbers are read: while `torch.export` is tracing
    they have no values, and cached ones would be wrong for the rest of the process.

    Args:
        maxsize: The number of results to keep.

    Returns:
        A decorator. What it decorates raises RuntimeError while `torch.export` is tracing.
    """

    def decorate(function: Callable[_P, _R]) -> Callable[_P, _R]:
        from_cache = cast(Callable[_P, _R], lru_cache(maxsize)(function))

        @wraps(function)
        def call(*args: _P.args, **kwargs: _P.kwargs) -> _R:
            if torch.compiler.is_exporting():
                raise RuntimeError(
                    "torch.export cannot trace this model, since the host builds tables inside it: "
                    "use torch.compile, or restore a model that was sped up"
                )
            return from_cache(*args, **kwargs)

        return call

    return decorate
