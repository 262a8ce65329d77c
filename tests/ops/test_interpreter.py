"""The kernels, in Triton's interpreter: the `test_triton.py` of every op that has one."""

from pathlib import Path

import pytest
import torch

from tests.interpreter import run_interpreted

# Each process first imports torch, models and the compiler, which takes many seconds. The two take
# about as long as each other.
TOGETHER = [
    ["tree_attention", "relative_attention", "rotary", "tree_positions"],
    [
        *("window_attention", "vip_compression", "fovea_attention", "cross_entropy", "float8"),
        *("gated_gelu", "layer_norm", "rms_norm"),
    ],
]


def test_no_kernels_are_left_out():
    with_kernels = [path.parent.name for path in Path(__file__).parent.glob("*/test_triton.py")]
    assert sorted(with_kernels) == sorted(op for ops in TOGETHER for op in ops)


@pytest.mark.skipif(torch.cuda.is_available(), reason="test_triton.py runs on the GPU itself")
@pytest.mark.parametrize("ops", TOGETHER, ids="+".join)
def test_kernels_in_the_interpreter(ops):
    run_interpreted(Path(__file__).parent / op / "test_triton.py" for op in ops)
