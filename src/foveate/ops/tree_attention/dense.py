"""Dense attention within groups of nodes of one size, and the log-sum-exps that merge its parts."""

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from .families import FamilyBatch

_MAX_SCORES = 1 << 22
"""Attention scores that are materialized at a time for log-sum-exps."""

_KEYS_AT_ONCE = 16
"""Keys whose scores torch's CPU kernel reads at once with AVX-512; others it reads one by one."""

_flash_attention = getattr(torch.ops.aten, "_scaled_dot_product_flash_attention_for_cpu", None)
"""What `scaled_dot_product_attention` runs on a CPU; called directly it returns log-sum-exps too.

It is private to torch. Where it is missing, log-sum-exps are computed separately.
"""


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
    lse = q.new_zeros(q.shape[:2], dtype=torch.promote_types(q.dtype, torch.float32))
    start = 0
    for number, size, any_inner, are_roots in batch.groups:
        queries, group_out, group_lse = (
            x[start : start + number * size].unflatten(0, (number, size)) for x in (q, out, lse)
        )
        keys, values = (_blocks(x, start, number, size) for x in (k, v))
        attended, attended_lse = _attend_first(queries, keys, values, size, any_inner)
        group_out.copy_(attended)
        if any_inner:
            group_lse.copy_(attended_lse)
        if not are_roots:
            parents = queries[:, :1]
            attended, attended_lse = _attend_first(parents, keys[:, 1:], values[:, 1:], size - 1)
            group_out[:, :1] = attended
            group_lse[:, :1] = attended_lse
        start += number * size
    return out, lse


def _blocks(x: Tensor, start: int, number: int, size: int) -> Tensor:
    """View blocks of nodes `(number, size or more, ...)`, of which the first one begins at `start`.

    The kernel is slow for numbers of keys that it does not read at once, so that blocks go on with
    the nodes that follow, or with zeros where there are none.
    """
    length = size + -size % _KEYS_AT_ONCE
    if start + (number - 1) * size + length <= len(x):
        return x[start:].unfold(0, length, size)[:number].movedim(-1, 1)
    blocks = x[start : start + number * size].unflatten(0, (number, size))
    return F.pad(blocks, (0, 0, 0, 0, 0, length - size))


def _attend_first(
    q: Tensor, k: Tensor, v: Tensor, num_keys: int, needs_lse: bool = True
) -> tuple[Tensor, Tensor | None]:
    """Attend within b groups to the first keys, q `(b, m, h, d)`, k and v `(b, n, h, d)`.

    Returns:
        The output `(b, m, h, d)` and, if it is needed, the log-sum-exp of each query's scores
        `(b, m, h)`.
    """
    if _flash_attention is not None and q.device.type == "cpu":
        mask = q.new_zeros(k.shape[1])
        mask[num_keys:] = float("-inf")
        q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
        out, lse = _flash_attention(q, k, v, attn_mask=mask[None, None, None])
        return out.transpose(1, 2), lse.transpose(1, 2)
    k, v = k[:, :num_keys], v[:, :num_keys]
    scale = q.shape[-1] ** -0.5
    out = attend(q, k, v, scale).unflatten(0, q.shape[:2])
    return out, log_sum_exp(q, k, scale).unflatten(0, q.shape[:2]) if needs_lse else None


def attend(q: Tensor, k: Tensor, v: Tensor, scale: float) -> Tensor:
    """Attend within b groups, q `(b, m, h, d)`, k and v `(b, n, h, d)`, to `(bm, h, d)`."""
    q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
    out = F.scaled_dot_product_attention(q, k, v, scale=scale)
    return out.transpose(1, 2).flatten(0, 1)


def log_sum_exp(q: Tensor, k: Tensor, scale: float) -> Tensor:
    """Compute the log-sum-exp of each query's scores, `(bm, h)`, in at least float32."""
    _, m, h, _ = q.shape
    groups_per_tile = max(1, _MAX_SCORES // (m * h * k.shape[1]))
    queries_per_tile = max(1, _MAX_SCORES // (groups_per_tile * h * k.shape[1]))
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
    if not torch.is_grad_enabled():  # in inference `checkpoint` would only import the compiler
        return _score_log_sum_exp(q, k, scale)
    output: Tensor = checkpoint(_score_log_sum_exp, q, k, scale, use_reentrant=False)
    return output


def _score_log_sum_exp(q: Tensor, k: Tensor, scale: float) -> Tensor:
    scores = torch.einsum("bmhd,bnhd->bmhn", q, k) * scale
    return torch.logsumexp(scores.to(torch.promote_types(scores.dtype, torch.float32)), dim=-1)
