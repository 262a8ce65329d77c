"""Where tests find what is not part of the project."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SHARED = ROOT.parent / "shared"


def shared(path: str) -> Path:
    """A file beside the project, or skip the test."""
    if not (SHARED / path).exists():
        pytest.skip(f"needs {path} in a folder shared/ beside the project")
    return SHARED / path
