"""Kernels in Triton's interpreter, which must be settled before triton is imported."""

import os
import subprocess
import sys
from pathlib import Path

import pytest


def run_interpreted(beside: str) -> None:
    """Run the test_triton.py beside a test file in a process of its own, which interprets."""
    pytest.importorskip("triton")
    tests = Path(beside).with_name("test_triton.py")
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "--quiet", "-p", "no:cacheprovider", str(tests)],
        env=os.environ
        | {"TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[1],
    )
    assert run.returncode == 0, run.stdout[-6000:] + run.stderr[-2000:]
    assert " passed" in run.stdout
