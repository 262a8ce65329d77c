"""Dense attention within groups of equal size, and the log-sum-exps that merge its parts."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from foveate.ops.precision import widened

MAX_SCORES = 1 << 22
"""Attention scores that are materialized at a time for log-sum-exps."""

_KEYS_AT_ONCE = 16
"""Keys that torch's CPU kernel reads at once with AVX-512; those left over it reads one by one."""

_LONG = 1024
"""Tokens of a sequence beyond which the few keys left over take no time to speak of."""


def attend_equal(q: Tensor, k: Tensor, v: Tensor, runs: Sequence[tuple[int, int]]) -> Tensor:
    """Attend within sequences that follow each other.

    Args:
        q: Queries `(tokens or more, heads, head_dim)`.
        k: Keys, same shape, finite.
        v: Values, same shape, finite.
        runs: For sequences of one length after another, their number and that length.

    Returns:
        The output, shaped like the queries, 0 beyond the tokens.
    """
    out = torch.zeros(q.shape, dtype=q.dtype, device=q.device)
    start = 0
    for number, size in runs:
        run = slice(start, start + number * size)
        queries = q[run].unflatten(0, (number, size))
        keys, values = (_blocks(x, start, number, size) for x in (k, v))
        mask = q.new_full((1, keys.shape[1]), float("-inf"))
        mask[:, :size] = 0
        queries, keys, values = (x.transpose(1, 2) for x in (queries, keys, values))
        attended = F.scaled_dot_product_attention(queries, keys, values, mask)
        out[run] = attended.transpose(1, 2).flatten(0, 1)
        start = run.stop
    return out


def _blocks(x: Tensor, start: int, number: int, size: int) -> Tensor:
    """View blocks of `size` tokens, one after another, the first one beginning at `start`.

    Returns:
        `(number, size or more, ...)`. The kernel is slow unless the number of keys is a multiple of
        what it reads at once, so each block is extended by the tokens that follow in x, or by zeros
        where x ends.
    """
    padding = -size % _KEYS_AT_ONCE if size <= _LONG else 0
    end = start + number * size
    if end + padding <= len(x):
        return x[start : end + padding].unfold(0, size + padding, size).movedim(-1, 1)
    return F.pad(x[start:end].unflatten(0, (number, size)), (0, 0, 0, 0, 0, padding))


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
