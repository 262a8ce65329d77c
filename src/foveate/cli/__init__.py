"""The `foveate` command: parse, call tasks, print."""

from .interrupts import interruptible

__all__ = ["main"]


def main() -> None:
    """Run the command."""
    with interruptible():
        from .app import run  # which takes a moment to import

        run()
