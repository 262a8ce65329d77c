"""The definition of RMSNorm."""

from torch import Tensor


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """Compute RMSNorm term by term; see `foveate.ops.rms_norm`."""
    return x / (x.square().mean(-1, keepdim=True) + eps).sqrt() * weight
