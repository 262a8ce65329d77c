import pytest
import torch

from foveate.ops.window_attention import GlobalKeysValues, window_attention
from tests.numerics import relative_error


def inputs(dtype=torch.float32, head_dim=8):
    return torch.randn(3, 6, 2, head_dim, generator=torch.Generator().manual_seed(0), dtype=dtype)


def test_backends_agree(monkeypatch):
    q, k, v = inputs(torch.float64)
    call = {
        "window": (2, 1),
        "global_keys_values": GlobalKeysValues(k[:3], v[:3], [1, 2]),
        "lengths": [4, 2],
    }
    expected = window_attention(q, k, v, **call, backend="reference")
    assert relative_error(window_attention(q, k, v, **call, backend="eager"), expected) < 1e-14
    assert relative_error(window_attention(q, k, v, **call), expected) < 1e-14
    monkeypatch.setenv("FOVEATE_BACKEND", "reference")
    assert torch.equal(window_attention(q, k, v, **call), expected)


def test_the_environment_and_the_argument_name_the_backend(monkeypatch):
    monkeypatch.setenv("FOVEATE_BACKEND", "cuda")
    with pytest.raises(ValueError, match="unknown backend 'cuda': choose among"):
        window_attention(*inputs(), (1, 1))
    window_attention(*inputs(), (1, 1), backend="eager")


def test_kernels_reject_what_they_cannot_run(monkeypatch):
    pytest.importorskip("triton")
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    with pytest.raises(ValueError, match='"triton" cannot run: it needs tensors on a GPU, got cpu'):
        window_attention(*inputs(), (1, 1), backend="triton")
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    with pytest.raises(ValueError, match=r"cannot run: it computes in .*, got torch.float64"):
        window_attention(*inputs(torch.float64), (1, 1), backend="triton")
    with pytest.raises(ValueError, match="up to 128 channels, got 192"):
        window_attention(*inputs(head_dim=192), (1, 1), backend="triton")


def test_autocast_decides_the_dtype():
    q, k, v = inputs()
    kv = GlobalKeysValues(k[:2], v[:2].bfloat16(), [2])
    with torch.autocast("cpu", torch.bfloat16):
        assert (
            window_attention(q, k.bfloat16(), v, (1, 1), global_keys_values=kv).dtype
            == torch.bfloat16
        )
        q, k, v = inputs(torch.float64)
        assert window_attention(q, k, v, (1, 1)).dtype == torch.float64
