"""Cache the tables that kernels read, which the host builds once for all layers of a model."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from threading import local
from typing import Any, TypeVar

import torch
from torch import Tensor

from foveate.ops.compiling import cached

Function = TypeVar("Function", bound=Callable[..., Any])

_retained: dict[int, Any] = {}
_thread_local = local()


def cached_for_graphs(maxsize: int) -> Callable[[Function], Function]:
    """Cache like `foveate.ops.compiling.cached`, but keep each result that a CUDA graph reads.

    A graph reads the addresses that it was captured with whenever it is replayed, so its tables are
    retained until the process ends, or for as long as the caller of `retain_graph_tensors` keeps
    them.

    Args:
        maxsize: The number of results to keep.
    """

    def decorate(function: Function) -> Function:
        from_cache = cached(maxsize)(function)

        @wraps(function)
        def call(*arguments: Any) -> Any:
            result = from_cache(*arguments)
            if torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing():
                retained = getattr(_thread_local, "retained", _retained)
                retained[id(result)] = result
            return result

        return call  # type: ignore[return-value] # has the signature of the function

    return decorate


@contextmanager
def retain_graph_tensors() -> Iterator[dict[int, Any]]:
    """Collect the cached results that this thread's graphs capture within the context."""
    _thread_local.retained = {}
    try:
        yield _thread_local.retained
    finally:
        del _thread_local.retained


def stream_id(device: torch.device) -> int:
    """Return the number of the stream that kernels are launched on.

    A table that `send` copies belongs to one stream: this number is part of its cache key, so that
    no other stream reads the table before it has arrived.
    """
    return torch.cuda.current_stream(device).cuda_stream if device.type == "cuda" else 0


def send(x: Tensor, device: torch.device) -> Tensor:
    """Copy a tensor from the host to the device without synchronizing."""
    return x.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else x
