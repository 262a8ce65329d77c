"""Kernels in Triton's interpreter, which is chosen before triton is imported."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest


def run_interpreted(test_file: str) -> None:
    """Run the `test_triton.py` next to a test file in a new process, in the interpreter."""
    pytest.importorskip("triton")
    tests = Path(test_file).with_name("test_triton.py")
    # Neither fixtures nor other plugins are needed, and they take seconds to import.
    options = ["--quiet", "-p", "no:cacheprovider", "--noconftest", "-p", "tests.interpreter"]
    run = subprocess.run(
        [sys.executable, "-m", "pytest", *options, str(tests)],
        env=os.environ
        | {"TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[1],
    )
    assert run.returncode == 0, run.stdout[-6000:] + run.stderr[-2000:]
    assert " passed" in run.stdout


def pytest_configure() -> None:
    """Patch Triton's language once for each module, as the plugin of those processes.

    The interpreter patches it whenever one kernel calls another, which takes it half of the time.
    """
    from triton.runtime import interpreter

    patch, patched = interpreter._patch_lang, set()

    def patch_once(function):
        if function.__module__ not in patched:
            patched.add(function.__module__)
            patch(function)
        return SimpleNamespace(restore=lambda: None)

    interpreter._patch_lang = patch_once
