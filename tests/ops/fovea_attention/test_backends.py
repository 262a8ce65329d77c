import pytest
import torch

from foveate.ops.fovea_attention import fovea_attention
from tests.numerics import relative_error

SIZES = {"block_size": 4, "k_neighbours": 1}


def inputs(dtype=torch.float32):
    return torch.randn(3, 30, 2, 8, generator=torch.Generator().manual_seed(0)).to(dtype)


def test_backends_agree(monkeypatch):
    q, k, v = inputs(torch.float64)
    expected = fovea_attention(q, k, v, backend="reference", **SIZES)
    assert relative_error(fovea_attention(q, k, v, backend="eager", **SIZES), expected) < 1e-14
    monkeypatch.setenv("FOVEATE_BACKEND", "reference")
    assert torch.equal(fovea_attention(q, k, v, **SIZES), expected)


def test_kernels_reject_what_they_cannot_run(monkeypatch):
    pytest.importorskip("triton")
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    with pytest.raises(ValueError, match='"triton" cannot run: it needs tensors on a GPU, got cpu'):
        fovea_attention(*inputs(), backend="triton", **SIZES)


def test_autocast_decides_the_dtype():
    with torch.autocast("cpu", torch.bfloat16):
        assert fovea_attention(*inputs(), **SIZES).dtype == torch.bfloat16
