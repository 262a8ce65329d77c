import pytest
import torch

from foveate.ops.relative_attention import relative_attention
from tests.numerics import relative_error


def inputs(dtype=torch.float32, head_dim=8):
    return torch.randn(3, 6, 2, head_dim, generator=torch.Generator().manual_seed(0), dtype=dtype)


@pytest.mark.parametrize("positions", [None, torch.tensor([4, 0, 9, 2, 2, 7])])
def test_backends_agree(monkeypatch, positions):
    q, k, v = inputs(torch.float64)
    call = {
        "bias": torch.randn(6, 2, dtype=torch.float64),
        "key_bias": torch.randn(6, dtype=torch.float64),
        "q_lengths": [4, 2],
        "q_positions": positions,
        "causal": True,
        "max_distance": 5,
    }
    expected = relative_attention(q, k, v, **call, backend="reference")
    assert relative_error(relative_attention(q, k, v, **call, backend="eager"), expected) < 1e-14
    assert relative_error(relative_attention(q, k, v, **call), expected) < 1e-14
    monkeypatch.setenv("FOVEATE_BACKEND", "reference")
    assert torch.equal(relative_attention(q, k, v, **call), expected)


def test_the_environment_and_the_argument_name_the_backend(monkeypatch):
    monkeypatch.setenv("FOVEATE_BACKEND", "cuda")
    with pytest.raises(ValueError, match="unknown backend 'cuda': choose among"):
        relative_attention(*inputs())
    relative_attention(*inputs(), backend="eager")


def test_kernels_reject_what_they_cannot_run(monkeypatch):
    pytest.importorskip("triton")
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    with pytest.raises(ValueError, match='"triton" cannot run: it needs tensors on a GPU, got cpu'):
        relative_attention(*inputs(), backend="triton")
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    with pytest.raises(ValueError, match=r"cannot run: it computes in .*, got torch.float64"):
        relative_attention(*inputs(torch.float64), backend="triton")
    with pytest.raises(ValueError, match="up to 128 channels, got 192"):
        relative_attention(*inputs(head_dim=192), backend="triton")


def test_autocast_decides_the_dtype():
    q, k, v = inputs()
    with torch.autocast("cpu", torch.bfloat16):
        assert relative_attention(q, k.bfloat16(), v).dtype == torch.bfloat16
        assert relative_attention(q.double(), k.double(), v.double()).dtype == torch.float64
