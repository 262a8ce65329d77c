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

    def __call__(self, steps: int = 1, *, total: int | None = None, note: str = "") -> None:
        """Advance by a number of steps.

        Args:
            steps: How many.
            total: Total number of steps, if it was not known before.
            note: What is shown beside the bar from now on.
        """
        ...


@contextmanager
def progress(description: str, total: int | None, shown: bool | None = None) -> Iterator[Advance]:
    """Give a function that advances a progress bar on standard error.

    Args:
        description: What is being done.
        total: Total number of steps; None if it is not known, for a bar that only moves.
        shown: Whether to show the bar. By default it is shown if standard error is a terminal.

    Example:
        >>> from foveate.progress import progress
        >>> with progress("Reading", total=3) as advance:
        ...     for _ in range(3):
        ...         advance()
    """
    if not (sys.stderr.isatty() if shown is None else shown):
        yield lambda steps=1, *, total=None, note="": None
        return
    from rich.console import Console
    from rich.progress import Progress, TextColumn

    columns = *Progress.get_default_columns(), TextColumn("{task.fields[note]}")
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    task = bar.add_task(description, total=total, note="")

    def advance(steps: int = 1, *, total: int | None = None, note: str = "") -> None:
        bar.update(task, advance=steps, total=total, note=note)

    timer = Timer(_DELAY, bar.start)  # the first step may take long
    timer.daemon = True
    timer.start()
    try:
        yield advance
    finally:
        timer.cancel()
        timer.join()
        bar.stop()
