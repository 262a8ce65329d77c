"""Tree attention in plain torch: any device, linear memory, differentiable.

Families of equal size are computed together (see `families.py`), so nothing is padded and no row's
result depends on which other families there are. Nodes whose attention comes in two parts have
these merged by their log-sum-exp.
"""

from collections.abc import Collection, Iterable

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from .families import plan
from .tree import Tree

_SCORES_AT_ONCE = 1 << 22
"""Attention scores materialized together where log-sum-exps are needed."""


@torch.compiler.disable  # or its loop over the families would be compiled for every tree anew
def tree_attention(
    q: Tensor, k: Tensor, v: Tensor, tree: Tree, edges: Collection[str], scale: float
) -> Tensor:
    """Attention of level-ordered rows `(n, heads, head_dim)` over the families of `tree`."""
    groups, place, below, inner = plan(tree, edges)
    every = [*groups, *below]
    queries = _take(q, [group.queries for group in every])
    keys, values = (_take(x, [group.keys for group in every]) for x in (k, v))
    outs = [_attend(*rows, scale) for rows in zip(queries, keys, values, strict=True)]
    out = torch.cat(outs[: len(groups)]).index_select(0, place)
    if not below:
        return out

    def log_sum_exps(numbers: Iterable[int]) -> Tensor:
        return torch.cat([_log_sum_exp(queries[i], keys[i], scale) for i in numbers])

    above = [i for i, group in enumerate(groups) if group.in_two_parts]
    rows = torch.cat([groups[i].queries.flatten() for i in above])
    of_rows = log_sum_exps(above)
    lse = of_rows.new_zeros(q.shape[:2]).index_copy(0, rows, of_rows)[inner]
    out_below = torch.cat(outs[len(groups) :])
    lse_below = log_sum_exps(range(len(groups), len(every)))
    share_below = torch.sigmoid(lse_below - lse)[..., None]  # of the whole softmax's mass
    merged = torch.lerp(out[inner].to(lse), out_below.to(lse), share_below)
    return out.index_copy(0, inner, merged.to(out))


def _take(x: Tensor, rows: list[Tensor]) -> list[Tensor]:
    """Rows of x for each group, `(b, m, h, d)`: taken all at once, and so their gradients added."""
    taken = x.index_select(0, torch.cat([some.flatten() for some in rows]))
    parts = taken.split([some.numel() for some in rows])
    return [part.unflatten(0, some.shape) for part, some in zip(parts, rows, strict=True)]


def _attend(q: Tensor, k: Tensor, v: Tensor, scale: float) -> Tensor:
    """Attend within b groups, q `(b, m, h, d)`, k and v `(b, n, h, d)`, to `(bm, h, d)`."""
    q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
    out = F.scaled_dot_product_attention(q, k, v, scale=scale)
    return out.transpose(1, 2).flatten(0, 1)


def _log_sum_exp(q: Tensor, k: Tensor, scale: float) -> Tensor:
    """Log-sum-exp of each query's scores, `(bm, h)`, in float32 at least."""
    _, m, h, _ = q.shape
    groups_at_once = max(1, _SCORES_AT_ONCE // (m * h * k.shape[1]))
    queries_at_once = max(1, _SCORES_AT_ONCE // (groups_at_once * h * k.shape[1]))
    return torch.cat(
        [
            torch.cat(
                [
                    checkpoint(_tile_log_sum_exp, tile, k_groups, scale, use_reentrant=False)
                    for tile in q_groups.split(queries_at_once, dim=1)
                ],
                dim=1,
            ).flatten(0, 1)
            for q_groups, k_groups in zip(
                q.split(groups_at_once), k.split(groups_at_once), strict=True
            )
        ]
    )


def _tile_log_sum_exp(q: Tensor, k: Tensor, scale: float) -> Tensor:
    scores = torch.einsum("bmhd,bnhd->bmhn", q, k) * scale
    return torch.logsumexp(scores.to(torch.promote_types(scores.dtype, torch.float32)), dim=-1)
