"""The definition of a sum's layer norm."""

from torch import Tensor


def add_layer_norm(x: Tensor, update: Tensor, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
    """Compute the norm of the sum term by term; see `foveate.ops.layer_norm`."""
    total = (x + update).to(x.dtype)
    centered = total - total.mean(-1, keepdim=True)
    return centered / (centered.square().mean(-1, keepdim=True) + eps).sqrt() * weight + bias
