import pytest
import torch

from foveate.ops.rms_norm import residual_rms_norm, rms_norm
from tests.numerics import TOLERANCE, relative_error


def inputs(*shape):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(*shape, generator=generator, dtype=torch.float64).requires_grad_()
    weight = torch.randn(shape[-1], generator=generator, dtype=torch.float64).requires_grad_()
    return x, weight


@pytest.mark.parametrize("shape", [(8,), (0, 8), (7, 9), (2, 3, 4)])
def test_torch_is_the_reference(shape):
    leaves, outputs = inputs(*shape), []
    for backend in ("eager", "reference"):
        out = rms_norm(*leaves, 1e-6, backend=backend)
        outputs.append((out, *torch.autograd.grad((out * out.detach().cos()).sum(), leaves)))
    for pair in zip(*outputs, strict=True):
        assert relative_error(*pair) < 1e-13


def test_weights_that_do_not_match_are_rejected():
    x, weight = inputs(3, 4)
    for other in (weight[:2], weight.float(), weight.to("meta")):
        with pytest.raises(ValueError, match=r"weight must be \(4,\) torch.float64 on cpu"):
            rms_norm(x, other, 1e-6)
        with pytest.raises(ValueError, match=r"weight must be \(4,\) torch.float64 on cpu"):
            residual_rms_norm(x, other, 1e-6)


@pytest.mark.parametrize("norm", [rms_norm, residual_rms_norm])
def test_integers_are_rejected(norm):
    x = torch.ones(3, 4, dtype=torch.int64)
    with pytest.raises(ValueError, match=r"x must have a floating dtype, got torch\.int64"):
        norm(x, x[0], 1e-6)


def test_a_residual_connection():
    x, weight = inputs(3, 4)
    update = torch.randn(3, 4, generator=torch.Generator().manual_seed(1)).to(torch.bfloat16)
    total, normed = residual_rms_norm(x, weight, 1e-6, update=update, dtype=torch.bfloat16)
    truth = x + update
    unit = truth / (truth.square().mean(-1, keepdim=True) + 1e-6).sqrt()
    assert total.dtype == torch.float64
    assert relative_error(total, truth) < 1e-14
    assert normed.dtype == torch.bfloat16
    assert relative_error(normed, unit * weight) < TOLERANCE[torch.bfloat16]
    residual, normed = residual_rms_norm(x, weight, 1e-6)
    assert torch.equal(residual, x)
    assert torch.equal(normed, rms_norm(x, weight, 1e-6))
    added = torch.zeros(3, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(
        lambda x, weight, added: residual_rms_norm(x, weight, 1e-6, update=added),
        (x, weight, added),
    )
    for other in (update[:2], update[:1], update[:0], update.to("meta")):
        with pytest.raises(ValueError, match=r"update must be \(3, 4\) on cpu"):
            residual_rms_norm(x, weight, 1e-6, update=other)
