"""A progress bar for work that turns out to take longer than two seconds."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

_PATIENCE = 2.0
"""Seconds of work before a bar appears."""


class Advance(Protocol):
    """Tell how much more is done."""

    def __call__(self, steps: int = 1) -> None: ...  # noqa: D102


@contextmanager
def progress(description: str, total: int, shown: bool | None = None) -> Iterator[Advance]:
    """Give a function that advances a bar on standard error.

    Args:
        description: what is being done.
        total: steps in all.
        shown: whether to show it; by default if standard error is a terminal.
    """
    if not (sys.stderr.isatty() if shown is None else shown):
        yield lambda steps=1: None
        return
    from rich.console import Console
    from rich.progress import Progress

    bar = Progress(console=Console(stderr=True), transient=True)
    task = bar.add_task(description, total=total)
    begun = time.monotonic()

    def advance(steps: int = 1) -> None:
        if not bar.live.is_started and time.monotonic() - begun > _PATIENCE:
            bar.start()
        bar.advance(task, steps)

    try:
        yield advance
    finally:
        bar.stop()
