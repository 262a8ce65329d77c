"""The kernels, in Triton's interpreter: the `test_triton.py` of every op that has one."""

from pathlib import Path

import pytest
import torch

from tests.interpreter import run_interpreted


@pytest.mark.skipif(torch.cuda.is_available(), reason="test_triton.py runs on the GPU itself")
def test_kernels_in_the_interpreter():
    # All in one process, since it first imports torch, models and the compiler.
    run_interpreted(sorted(Path(__file__).parent.glob("*/test_triton.py")))
