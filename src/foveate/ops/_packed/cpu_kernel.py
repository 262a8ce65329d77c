"""The kernel that `scaled_dot_product_attention` runs on a CPU, with the log-sum-exps.

It is private to torch, which may rename it: without it, the same is computed by other means.
"""

import torch
from torch import Tensor

from foveate.ops.precision import widened

_kernel = getattr(torch.ops.aten, "_scaled_dot_product_flash_attention_for_cpu", None)


def has_cpu_kernel(q: Tensor) -> bool:
    """Return whether the kernel can run on these queries."""
    return _kernel is not None and q.device.type == "cpu"


def attend(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, scale: float
) -> tuple[Tensor, Tensor]:
    """Attend with a mask or bias that is added to the scores, without gradients.

    Args:
        q: Queries `(batch, heads, queries, head_dim)`.
        k: Keys `(batch, heads, keys, head_dim)`.
        v: Values, shaped like the keys.
        mask: Broadcasts to `(batch, heads, queries, keys)`, in the dtype of q or of its sums.
        scale: Factor on the products.

    Returns:
        The output, shaped like the queries, and the log-sum-exps `(batch, heads, queries)`, in
        float32 for half precision.
    """
    if has_cpu_kernel(q):
        assert _kernel is not None
        # The kernel takes the channels of a token for adjacent, whatever their stride.
        q, k, v = (x if x.stride(-1) == 1 else x.contiguous() for x in (q, k, v))
        out, lse = _kernel(q, k, v, attn_mask=mask, scale=scale)
        return out, lse
    scores = (widened(q) * scale) @ widened(k).mT
    if mask is not None:
        scores += mask
    lse = scores.logsumexp(-1, keepdim=True)
    weights = scores.sub_(lse.clamp(min=torch.finfo(lse.dtype).min)).exp_()
    return (weights @ widened(v)).to(q.dtype), lse[..., 0]
