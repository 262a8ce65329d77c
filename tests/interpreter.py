"""Kernels in Triton's interpreter, which is chosen before triton is imported."""

import os
import subprocess
import sys
from pathlib import Path

import pytest


def run_interpreted(test_file: str) -> None:
    """Run the `test_triton.py` next to a test file in a new process, in the interpreter."""
    pytest.importorskip("triton")
    tests = Path(test_file).with_name("test_triton.py")
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
