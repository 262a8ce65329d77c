"""Functions that run in a process of their own, so that its memory and its failures are theirs."""

from collections.abc import Callable
from multiprocessing import get_context
from typing import TypeVar

T = TypeVar("T")


def in_new_process(
    function: Callable[..., T], *arguments: object, seconds: float | None = None
) -> T:
    """Call a function in a new process.

    Raises:
        multiprocessing.TimeoutError: It took more than these seconds, and was ended.
    """
    with get_context("spawn").Pool(1) as pool:
        return pool.apply_async(function, arguments).get(seconds)
