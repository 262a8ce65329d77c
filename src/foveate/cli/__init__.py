"""The `foveate` command: parse, call tasks, print."""

from .app import app, main

__all__ = ["app", "main"]
