"""A progress bar for work that takes longer than half a second."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Timer
from typing import Protocol

_DELAY = 0.5
"""Seconds of work before the bar appears."""


class Advance(Protocol):
    """A function that advances a progress bar."""

    def __call__(self, steps: int = 1) -> None:
        """Advance by a number of steps."""
        ...


@contextmanager
def progress(
    description: str, total: int | None, shown: bool | None = None, *, in_bytes: bool = False
) -> Iterator[Advance]:
    """Give a function that advances a progress bar on standard error.

    Args:
        description: What is being done.
        total: Total number of steps; None if it is not known, for a bar that only moves.
        shown: Whether to show the bar. By default it is shown if standard error is a terminal.
        in_bytes: Whether the steps are bytes, for a bar that shows how many there are, and how many
            a second.

    Example:
        >>> from foveate.progress import progress
        >>> with progress("Reading", total=3) as advance:
        ...     for _ in range(3):
        ...         advance()
    """
    if not (sys.stderr.isatty() if shown is None else shown):
        yield lambda steps=1: None
        return
    from rich.console import Console
    from rich.progress import DownloadColumn, Progress, TransferSpeedColumn

    columns = list(Progress.get_default_columns())
    if in_bytes:
        columns += (DownloadColumn(), TransferSpeedColumn())
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    task = bar.add_task(description, total=total)

    def advance(steps: int = 1) -> None:
        bar.update(task, advance=steps)

    timer = Timer(_DELAY, bar.start)  # the first step may take long
    timer.daemon = True
    timer.start()
    try:
        yield advance
    finally:
        timer.cancel()
        timer.join()
        bar.stop()
