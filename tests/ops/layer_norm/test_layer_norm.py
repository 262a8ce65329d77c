import pytest
import torch

from foveate.ops.layer_norm import add_layer_norm
from tests.numerics import TOLERANCE, relative_error


def inputs(*shape):
    generator = torch.Generator().manual_seed(0)
    shapes = shape, shape, shape[-1:], shape[-1:]
    return [
        torch.randn(*one, generator=generator, dtype=torch.float64).requires_grad_()
        for one in shapes
    ]


@pytest.mark.parametrize("shape", [(8,), (0, 8), (7, 9), (2, 3, 4)])
def test_torch_is_the_reference(shape):
    leaves, outputs = inputs(*shape), []
    for backend in ("eager", "reference"):
        out = add_layer_norm(*leaves, 1e-6, backend=backend)
        outputs.append((out, *torch.autograd.grad((out * out.detach().cos()).sum(), leaves)))
    for pair in zip(*outputs, strict=True):
        assert relative_error(*pair) < 1e-12


def test_integers_and_missing_vectors_are_rejected():
    x, update, weight, bias = inputs(3, 4)
    integers = torch.ones(3, 4, dtype=torch.int64)
    with pytest.raises(ValueError, match=r"x must have a floating dtype, got torch\.int64"):
        add_layer_norm(integers, integers, integers[0], integers[0], 1e-6)
    with pytest.raises(ValueError, match="weight must be a tensor of 4 channels, got None"):
        add_layer_norm(x, update, None, bias, 1e-6)
    with pytest.raises(ValueError, match="bias must be a tensor of 4 channels, got None"):
        add_layer_norm(x, update, weight, None, 1e-6)


def test_gradients():
    leaves = inputs(3, 4)
    assert torch.autograd.gradcheck(lambda *x: add_layer_norm(*x, 1e-6), leaves)


@pytest.mark.parametrize("backend", ["eager", "reference"])
def test_an_update_of_another_dtype(backend):
    x, update, weight, bias = (leaf.detach() for leaf in inputs(3, 40))
    x, weight, bias = x.float(), weight.float(), bias.float()
    update = update.bfloat16()
    out = add_layer_norm(x, update, weight, bias, 1e-6, backend=backend)
    assert out.dtype == torch.float32
    truth = torch.nn.functional.layer_norm(x + update.float(), (40,), weight, bias, 1e-6)
    assert relative_error(out, truth) < TOLERANCE[torch.float32]
    wide = add_layer_norm(x.bfloat16(), update.float(), weight.bfloat16(), bias.bfloat16(), 1e-6)
    assert wide.dtype == torch.bfloat16


def test_tensors_that_do_not_match_are_rejected():
    x, update, weight, bias = inputs(3, 4)
    for other in (update[:2], update[:1], update.to("meta")):
        with pytest.raises(ValueError, match=r"update must be \(3, 4\) on cpu"):
            add_layer_norm(x, other, weight, bias, 1e-6)
    for other in (weight[:2], weight.float(), weight.to("meta")):
        with pytest.raises(ValueError, match=r"weight must be \(4,\) torch.float64 on cpu"):
            add_layer_norm(x, update, other, bias, 1e-6)
        with pytest.raises(ValueError, match=r"bias must be \(4,\) torch.float64 on cpu"):
            add_layer_norm(x, update, weight, other, 1e-6)
