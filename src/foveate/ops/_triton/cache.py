"""Remembering what kernels look up, which the host makes once for all layers of a model."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache, wraps
from threading import local
from typing import Any, TypeVar

import torch

Table = TypeVar("Table", bound=Callable[..., Any])

_kept: dict[int, Any] = {}
_own = local()


def cached_for_graphs(size: int) -> Callable[[Table], Table]:
    """As `functools.lru_cache`, but what a CUDA graph is captured with is kept.

    A graph reads the addresses that it was captured with for as long as it is replayed: until the
    end of the program, unless `retain_graph_tensors` says who is to keep it.
    """

    def remember(table: Table) -> Table:
        ask = lru_cache(size)(table)

        @wraps(table)
        def answer(*arguments: Any) -> Any:
            found = ask(*arguments)
            if torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing():
                kept = getattr(_own, "kept", _kept)
                kept[id(found)] = found
            return found

        return answer  # type: ignore[return-value] # called as the table is

    return remember


@contextmanager
def retain_graph_tensors() -> Iterator[dict[int, Any]]:
    """Give what graphs of this thread are captured with, within, to the caller to keep."""
    _own.kept = {}
    try:
        yield _own.kept
    finally:
        del _own.kept
