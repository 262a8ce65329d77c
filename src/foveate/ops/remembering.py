"""Remembering what kernels look up, which the host makes once for all layers of a model."""

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Any, TypeVar

import torch

Function = TypeVar("Function", bound=Callable[..., Any])

_captured: list[Any] = []


def remembered(size: int) -> Callable[[Function], Function]:
    """As `functools.lru_cache`, but what a graph is captured with is never forgotten.

    A graph reads the addresses that it was captured with, for as long as it is replayed.
    """

    def remember(function: Function) -> Function:
        ask = lru_cache(size)(function)

        @wraps(function)
        def answer(*arguments: Any) -> Any:
            found = ask(*arguments)
            if torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing():
                _captured.append(found)
            return found

        return answer  # type: ignore[return-value] # called as the function is

    return remember
