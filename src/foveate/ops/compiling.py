"""What `torch.compile` must not trace, and what `torch.export` takes as constants."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
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


def constant_in_exports(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Keep `torch.export` out of a function that depends on shapes and real tensors alone.

    For tables that the host builds, from which numbers are read: they have none while
    `torch.export` is tracing, which it does in one thread only.
    """

    @wraps(function)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        if not torch.compiler.is_exporting():
            return function(*args, **kwargs)
        with ThreadPoolExecutor(1) as untraced:
            return untraced.submit(function, *args, **kwargs).result()

    return call


def cached(maxsize: int) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """Cache like `functools.lru_cache`, with results that are `constant_in_exports`.

    Args:
        maxsize: The number of results to keep.
    """

    def decorate(function: Callable[_P, _R]) -> Callable[_P, _R]:
        return constant_in_exports(cast(Callable[_P, _R], lru_cache(maxsize)(function)))

    return decorate
