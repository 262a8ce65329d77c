"""The `foveate` command: parse, call tasks, print."""

import os

from .interrupts import interruptible

# Threads that wait for work would otherwise keep the cores busy that other programs need. OpenMP
# reads this when torch is imported; the processes that a command starts inherit it.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

__all__ = ["main"]


def main() -> None:
    """Run the command."""
    with interruptible():
        from .app import run  # which takes a moment to import
        from .memory import limit_arenas

        limit_arenas()
        run()
