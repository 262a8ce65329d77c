import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from foveate.ops.cross_entropy import cross_entropy
from tests.numerics import TOLERANCE, relative_error


def predictions(shape, vocab_size, dtype=torch.float64):
    generator = torch.Generator().manual_seed(0)
    logits = 3 * torch.randn(*shape, vocab_size, generator=generator, dtype=torch.float64)
    labels = torch.randint(vocab_size, shape, generator=generator)
    labels = torch.where(torch.rand(shape, generator=generator) < 0.3, -100, labels)
    return logits.to(dtype).requires_grad_(), labels


def with_gradient(logits, labels, backend):
    losses = cross_entropy(logits, labels, backend=backend)
    weight = torch.randn(losses.shape, generator=torch.Generator().manual_seed(1)).to(losses.dtype)
    return losses, *torch.autograd.grad(losses, logits, weight)


@given(st.lists(st.integers(0, 5), max_size=2), st.integers(2, 40))
@settings(max_examples=20)
def test_torch_is_the_reference(shape, vocab_size):
    inputs = predictions(shape, vocab_size)
    pairs = zip(*(with_gradient(*inputs, name) for name in ("eager", "reference")), strict=True)
    assert all(relative_error(*each) < 1e-12 for each in pairs)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_other_precisions_are_computed_in_float32(dtype):
    logits, labels = predictions((6, 7), 9, dtype)
    losses, gradient = with_gradient(logits, labels, None)
    assert losses.dtype == torch.float32
    assert gradient.dtype == dtype
    exact = with_gradient(logits.detach().double().requires_grad_(), labels, "reference")
    assert relative_error(losses, exact[0]) < TOLERANCE[torch.float32]
    assert relative_error(gradient, exact[1]) < TOLERANCE[dtype]


def test_gradients_by_differences():
    logits, labels = predictions((3, 2), 5)
    assert torch.autograd.gradcheck(lambda logits: cross_entropy(logits, labels), (logits,))


def test_predictions_that_do_not_count():
    logits, labels = predictions((4,), 5)
    logits.data[1] = float("nan")
    labels[:] = torch.tensor([2, 7, 0, 7])
    losses = cross_entropy(logits, labels, ignore_index=7)
    (gradient,) = torch.autograd.grad(losses.sum(), logits)
    assert losses[1] == losses[3] == 0
    assert not gradient[3].any()
    assert losses[[0, 2]].isfinite().all()


def test_labels_that_do_not_match_are_rejected():
    logits, labels = predictions((3, 4), 5)
    for other in (labels[:2], labels.flatten(), labels.to("meta")):
        with pytest.raises(ValueError, match=r"labels must be \(3, 4\) on cpu"):
            cross_entropy(logits, other)
    with pytest.raises(ValueError, match=r"labels must be torch.int64, got torch.float32"):
        cross_entropy(logits, labels.float())
    with pytest.raises(ValueError, match="unknown backend 'cuda'"):
        cross_entropy(logits, labels, backend="cuda")
