"""Where tests find data."""

from pathlib import Path

import pytest

TESTS = Path(__file__).parent
ROOT = TESTS.parent
SHARED = ROOT.parent / "shared"


def shared(path: str) -> Path:
    """Return a file of the tests or of the folder beside the project, or skip the test."""
    for folder in (TESTS, SHARED):
        if (folder / path).exists():
            return folder / path
    pytest.skip(f"needs {path} in a folder shared/ beside the project")
