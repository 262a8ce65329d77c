"""The kernels: on a GPU, or else in Triton's interpreter (../test_interpreter.py starts that)."""

import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from foveate.ops.cross_entropy import cross_entropy
from tests.devices import DEVICE, ON_GPU, gpu, gpu_or_interpreter
from tests.numerics import TOLERANCE, relative_error

pytestmark = gpu_or_interpreter
DTYPES = [torch.float32, torch.bfloat16, torch.float16]


def predictions(shape, vocab_size, dtype):
    generator = torch.Generator().manual_seed(0)
    logits = 3 * torch.randn(*shape, vocab_size, generator=generator)
    labels = torch.randint(vocab_size, shape, generator=generator)
    labels = torch.where(torch.rand(shape, generator=generator) < 0.3, -100, labels)
    return logits.to(DEVICE, dtype).requires_grad_(), labels.to(DEVICE)


def check(logits, labels):
    exact = logits.detach().double().requires_grad_()
    weight = torch.randn(labels.shape, generator=torch.Generator().manual_seed(1)).to(DEVICE)
    found = []
    for each, backend in ((logits, "triton"), (exact, "reference")):
        losses = cross_entropy(each, labels, backend=backend)
        found.append((losses, *torch.autograd.grad(losses, each, weight.to(losses.dtype))))
    (losses, gradient), (true_losses, true_gradient) = found
    assert losses.dtype == torch.float32
    assert gradient.dtype == logits.dtype
    assert relative_error(losses, true_losses) < TOLERANCE[torch.float32]
    assert relative_error(gradient, true_gradient) < TOLERANCE[logits.dtype]


@given(
    st.lists(st.sampled_from([0, 1, 3, 8]), max_size=2),
    st.sampled_from([2, 31, 64, 300]),
    st.sampled_from(DTYPES),
)
@example([2], 4097, torch.float32)
@example([2], 8208, torch.bfloat16)
@settings(max_examples=40 if ON_GPU else 15)
def test_any_shape(shape, vocab_size, dtype):
    check(*predictions(shape, vocab_size, dtype))


def test_rows_apart():
    logits, labels = predictions((6, 5), 40, torch.float32)
    check(logits.detach()[::2, :, 3:30].requires_grad_(), labels[::2].clamp(max=26))
    check(logits.detach().transpose(0, 1).requires_grad_(), labels.T)
    row = logits.detach()[0].requires_grad_()
    check(row, labels[:5, 0])
    check(row, labels[:1, 1].expand(5))
    check(row[:, None], labels[:5, 1:2])


def test_large_logits():
    logits = torch.tensor(
        [[1e4, -1e4, 0.0], [-float("inf"), 5.0, 5.0], [-1e30, -1e30, -1e30]], device=DEVICE
    ).requires_grad_()
    labels = torch.tensor([0, 1, 2], device=DEVICE)
    losses = cross_entropy(logits, labels, backend="triton")
    (gradient,) = torch.autograd.grad(losses.sum(), logits)
    expected = cross_entropy(logits, labels, backend="eager")
    assert torch.allclose(losses, expected, atol=1e-5)
    assert torch.allclose(gradient, torch.autograd.grad(expected.sum(), logits)[0], atol=1e-5)


def test_what_begins_with_a_tile_of_infinity():
    logits = torch.full((1, 5000), -float("inf"), device=DEVICE)
    logits[0, 4500:] = 1.0
    losses = cross_entropy(logits, torch.tensor([4700], device=DEVICE), backend="triton")
    assert torch.allclose(losses, torch.tensor([500.0], device=DEVICE).log())


def test_a_prediction_that_does_not_count_may_be_nan():
    logits, labels = predictions((3,), 5, torch.float32)
    logits.data[1], labels[:] = float("nan"), torch.tensor([2, 7, 0])
    losses = cross_entropy(logits, labels, ignore_index=7, backend="triton")
    (gradient,) = torch.autograd.grad(losses.sum(), logits)
    assert losses[1] == 0
    assert not gradient[1].any()
    assert losses.isfinite().all()
    assert gradient.isfinite().all()


def test_a_label_beyond_the_vocabulary_gives_nan():
    logits, labels = predictions((3,), 5, torch.float32)
    labels[:] = torch.tensor([5, -1, 4])
    losses = cross_entropy(logits, labels, backend="triton")
    assert losses.isnan().tolist() == [True, True, False]


def test_torch_accepts_the_ops():
    from foveate.ops.cross_entropy.triton import _cross_entropy, _cross_entropy_backward

    logits, labels = predictions((3,), 40, torch.float32)
    logits = logits.detach()
    losses, saved = _cross_entropy(logits, labels, -100)
    torch.library.opcheck(_cross_entropy, (logits, labels, -100))
    torch.library.opcheck(_cross_entropy_backward, (losses, logits, labels, saved, -100))


@gpu
def test_compiles_without_graph_breaks():
    logits, labels = predictions((64,), 1000, torch.bfloat16)

    def mean(logits):
        return cross_entropy(logits, labels, backend="triton").mean()

    compiled = torch.compile(mean, fullgraph=True)
    (actual,) = torch.autograd.grad(compiled(logits), logits)
    (expected,) = torch.autograd.grad(mean(logits), logits)
    assert relative_error(actual, expected) < TOLERANCE[torch.bfloat16]


@gpu
def test_more_elements_than_32_bits_count():
    logits = torch.randn((1 << 17) + 8, 1 << 14, device="cuda", dtype=torch.bfloat16)
    labels = torch.randint(1 << 14, (len(logits),), device="cuda")
    losses = cross_entropy(logits.requires_grad_(), labels)
    (gradient,) = torch.autograd.grad(losses.sum(), logits)
    last = logits.detach()[-8:].requires_grad_()
    expected = cross_entropy(last, labels[-8:], backend="eager")
    assert relative_error(losses[-8:], expected) < TOLERANCE[torch.float32]
    (truth,) = torch.autograd.grad(expected.sum(), last)
    assert relative_error(gradient[-8:], truth) < TOLERANCE[torch.bfloat16]
