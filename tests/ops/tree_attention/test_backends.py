import pytest
import torch

from foveate.ops.tree_attention import Tree, tree_attention
from tests.numerics import relative_error

TREE = Tree.from_parents([-1, 0, 1, 1, 0, 4])


def inputs(dtype=torch.float32, head_dim=8):
    return torch.randn(3, 6, 2, head_dim, generator=torch.Generator().manual_seed(0), dtype=dtype)


def test_backends_agree(monkeypatch):
    q, k, v = inputs(torch.float64)
    expected = tree_attention(q, k, v, TREE, backend="reference")
    assert relative_error(tree_attention(q, k, v, TREE, backend="eager"), expected) < 1e-14
    assert relative_error(tree_attention(q, k, v, TREE), expected) < 1e-14
    monkeypatch.setenv("FOVEATE_BACKEND", "reference")
    assert torch.equal(tree_attention(q, k, v, TREE), expected)


def test_the_environment_or_the_argument_chooses_the_backend(monkeypatch):
    monkeypatch.setenv("FOVEATE_BACKEND", "cuda")
    with pytest.raises(ValueError, match="unknown backend 'cuda': choose among"):
        tree_attention(*inputs(), TREE)
    tree_attention(*inputs(), TREE, backend="eager")


def test_kernels_reject_what_they_cannot_run(monkeypatch):
    pytest.importorskip("triton")
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    with pytest.raises(ValueError, match='"triton" cannot run: it needs tensors on a GPU, got cpu'):
        tree_attention(*inputs(), TREE, backend="triton")
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    with pytest.raises(ValueError, match=r"cannot run: it computes in .*, got torch.float64"):
        tree_attention(*inputs(torch.float64), TREE, backend="triton")
    with pytest.raises(ValueError, match="up to 128 channels, got 192"):
        tree_attention(*inputs(head_dim=192), TREE, backend="triton")


def test_autocast_decides_the_dtype():
    q, k, v = inputs()
    with torch.autocast("cpu", torch.bfloat16):
        assert tree_attention(q, k.bfloat16(), v, TREE).dtype == torch.bfloat16
        assert tree_attention(q.double(), k.double(), v.double(), TREE).dtype == torch.float64
