"""Dense attention within groups of equal size, and the log-sum-exps that merge its parts."""

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from foveate.ops._packed.cpu_kernel import attend_on_cpu, has_cpu_kernel
from foveate.ops.precision import accumulation_dtype, widened

from .families import FamilyBatch

MAX_SCORES = 1 << 22
"""Attention scores that are materialized at a time for log-sum-exps."""

_KEYS_AT_ONCE = 16
"""Keys that torch's CPU kernel reads at once with AVX-512; those left over it reads one by one."""

_LARGE_FAMILY = 1024
"""Members of a family beyond which the few keys left over take no time to speak of."""


def attend_families(q: Tensor, k: Tensor, v: Tensor, batch: FamilyBatch) -> tuple[Tensor, Tensor]:
    """Attend within families, without gradients.

    Args:
        q: Queries `(members, heads, head_dim)`, one family after another.
        k: Keys, same shape, finite.
        v: Values, same shape, finite.
        batch: The families.

    Returns:
        The output `(members, heads, head_dim)`, that of parents from their children only unless
        they are roots; and for inner nodes the log-sum-exp of the scores, `(members, heads)`.
    """
    out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    lse = q.new_zeros(q.shape[:2], dtype=accumulation_dtype(q.dtype))
    start = 0
    for number, size, any_inner, are_roots in batch.groups:
        queries, group_out, group_lse = (
            x[start : start + number * size].unflatten(0, (number, size)) for x in (q, out, lse)
        )
        keys, values = (_blocks(x, start, number, size) for x in (k, v))
        attend_as = _attend_as_roots if are_roots else _attend_as_parents
        attended, attended_lse = attend_as(queries, keys, values)
        group_out.copy_(attended)
        num_inner = size if any_inner else 0 if are_roots else 1
        group_lse[:, :num_inner] = attended_lse[:, :num_inner]
        start += number * size
    return out, lse


def _blocks(x: Tensor, start: int, number: int, size: int) -> Tensor:
    """View blocks of `size` nodes, one after another, the first one beginning at `start`.

    Returns:
        `(number, size or more, ...)`. The kernel is slow unless the number of keys is a multiple of
        what it reads at once, so each block is extended by the nodes that follow in x, or by zeros
        where x ends.
    """
    padding = -size % _KEYS_AT_ONCE if size <= _LARGE_FAMILY else 0
    end = start + number * size
    if end + padding <= len(x):
        return x[start : end + padding].unfold(0, size + padding, size).movedim(-1, 1)
    return F.pad(x[start:end].unflatten(0, (number, size)), (0, 0, 0, 0, 0, padding))


def _attend_as_roots(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """Attend within b families of m members, q `(b, m, h, d)`, to the first m of k and v.

    Returns:
        The output `(b, m, h, d)`, and the log-sum-exp of each query's scores `(b, m, h)`.
    """
    return _attend_to(slice(0, q.shape[1]), q, k, v)


def _attend_as_parents(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """As `_attend_as_roots`, but let the parent, which is the first member, not attend to itself.

    It does in its other family, that of its own parent.
    """
    size = q.shape[1]
    if has_cpu_kernel(q) and size <= _LARGE_FAMILY:
        mask = q.new_full((size, k.shape[1]), float("-inf"))
        mask[:, :size] = 0
        mask[0, 0] = float("-inf")
        return _attend_with_mask(q, k, v, mask)
    out, lse = _attend_as_roots(q, k, v)
    out[:, :1], lse[:, :1] = _attend_to(slice(1, size), q[:, :1], k, v)
    return out, lse


def _attend_to(members: slice, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """Attend within b families to some of the keys, q `(b, m, h, d)`, k and v `(b, n, h, d)`."""
    if has_cpu_kernel(q):
        mask = q.new_full((1, k.shape[1]), float("-inf"))
        mask[:, members] = 0
        return _attend_with_mask(q, k, v, mask)
    k, v, scale = k[:, members], v[:, members], q.shape[-1] ** -0.5
    out, lse = attend(q, k, v, scale), log_sum_exp(q, k, scale)
    return out.unflatten(0, q.shape[:2]), lse.unflatten(0, q.shape[:2])


def _attend_with_mask(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Attend within b families, with a mask that broadcasts to `(m, n)` and is added to scores."""
    q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
    out, lse = attend_on_cpu(q, k, v, mask[None, None], q.shape[-1] ** -0.5)
    return out.transpose(1, 2), lse.transpose(1, 2)


def attend(q: Tensor, k: Tensor, v: Tensor, scale: float) -> Tensor:
    """Attend within b groups, q `(b, m, h, d)`, k and v `(b, n, h, d)`, to `(bm, h, d)`."""
    q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
    out = F.scaled_dot_product_attention(q, k, v, scale=scale)
    return out.transpose(1, 2).flatten(0, 1)


def log_sum_exp(q: Tensor, k: Tensor, scale: float) -> Tensor:
    """Compute the log-sum-exp of each query's scores, `(bm, h)`, in at least float32."""
    _, m, h, _ = q.shape
    groups_per_tile = max(1, MAX_SCORES // (m * h * k.shape[1]))
    queries_per_tile = max(1, MAX_SCORES // (groups_per_tile * h * k.shape[1]))
    return torch.cat(
        [
            torch.cat(
                [
                    _tile_log_sum_exp(tile, k_groups, scale)
                    for tile in q_groups.split(queries_per_tile, dim=1)
                ],
                dim=1,
            ).flatten(0, 1)
            for q_groups, k_groups in zip(
                q.split(groups_per_tile), k.split(groups_per_tile), strict=True
            )
        ]
    )


def _tile_log_sum_exp(q: Tensor, k: Tensor, scale: float) -> Tensor:
    """Compute the log-sum-exp of some queries' scores, which are not kept for gradients."""
    if not torch.is_grad_enabled():  # `checkpoint` would only import the compiler
        return _score_log_sum_exp(q, k, scale)
    output: Tensor = checkpoint(_score_log_sum_exp, q, k, scale, use_reentrant=False)
    return output


def _score_log_sum_exp(q: Tensor, k: Tensor, scale: float) -> Tensor:
    scores = torch.einsum("bmhd,bnhd->bmhn", q, k) * scale
    return torch.logsumexp(widened(scores), dim=-1)
