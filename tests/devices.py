"""Where kernels are tested: on a GPU, or else in Triton's interpreter (see `interpreter.py`)."""

import os

import pytest
import torch

ON_GPU = torch.cuda.is_available()
DEVICE = "cuda" if ON_GPU else "cpu"

gpu = pytest.mark.skipif(not ON_GPU, reason="needs a GPU")
gpu_or_interpreter = pytest.mark.skipif(
    not (ON_GPU or os.environ.get("TRITON_INTERPRET") == "1"),
    reason="needs a GPU or TRITON_INTERPRET=1",
)
