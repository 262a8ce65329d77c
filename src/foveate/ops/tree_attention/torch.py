"""Tree attention in plain torch: any device, linear memory, differentiable.

A *family* is a parent and its children, and inside a family everybody sees everybody: a child its
parent and siblings, the parent its children. A leaf belongs to one family only and needs nothing
else. Every other node belongs to two, once as a child and once as the parent, and its two partial
results are merged by their log-sum-exp. Families of equal size are computed together, so nothing
is padded and no row's result depends on which other families there are.
"""

from collections.abc import Collection

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from .tree import Tree

_SCORES_AT_ONCE = 1 << 22
"""Attention scores materialized together where log-sum-exps are needed."""


def tree_attention(
    q: Tensor, k: Tensor, v: Tensor, tree: Tree, edges: Collection[str], scale: float
) -> Tensor:
    """Attention of level-ordered rows `(n, heads, head_dim)` over the families of `tree`."""
    looks_down = "children" in edges and len(tree.families) > 1
    outs, inner_rows, inner_lses = [], [], []
    for parents, children, any_inner in tree.families:
        queries, keys = _looking_up(parents, children, edges)
        outs.append(_attend(q[queries], k[keys], v[keys], scale).flatten(0, 1))
        if looks_down and any_inner:
            inner_rows.append(queries.flatten())
            inner_lses.append(_log_sum_exp(q[queries], k[keys], scale).flatten(0, 1))
    up = torch.cat(outs)[tree.place_in_families]
    if not looks_down:
        return up

    rows, outs, lses = [], [], []
    for parents, children, _ in tree.families[1:]:
        rows.append(parents.flatten())
        outs.append(_attend(q[parents], k[children], v[children], scale).flatten(0, 1))
        lses.append(_log_sum_exp(q[parents], k[children], scale).flatten(0, 1))
    inner, down, down_lse = torch.cat(rows), torch.cat(outs), torch.cat(lses)
    up_lse = down_lse.new_zeros(q.shape[:2])
    up_lse = up_lse.index_copy(0, torch.cat(inner_rows), torch.cat(inner_lses))[inner]

    share_below = torch.sigmoid(down_lse - up_lse)[..., None]  # of the whole softmax's mass
    merged = torch.lerp(up[inner].to(share_below), down.to(share_below), share_below)
    return up.index_copy(0, inner, merged.to(up.dtype))


def _looking_up(parents: Tensor, children: Tensor, edges: Collection[str]) -> tuple[Tensor, Tensor]:
    """Rows of queries `(b, m)` and of the keys `(b, n)` they see beside and above them."""
    if "siblings" not in edges:  # each child then is a family of its own
        parents = parents.repeat_interleave(children.shape[1], dim=0)
        children = children.reshape(-1, 1)
    if "parent" not in edges:
        return children, children
    return children, torch.cat([parents, children], dim=1)


def _attend(q: Tensor, k: Tensor, v: Tensor, scale: float) -> Tensor:
    """Dense attention within each of b groups: q `(b, m, h, d)`, k and v `(b, n, h, d)`."""
    q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
    return F.scaled_dot_product_attention(q, k, v, scale=scale).transpose(1, 2)


def _log_sum_exp(q: Tensor, k: Tensor, scale: float) -> Tensor:
    """Log-sum-exp of each query's scores, `(b, m, h)`, in float32 at least."""
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
            )
            for q_groups, k_groups in zip(
                q.split(groups_at_once), k.split(groups_at_once), strict=True
            )
        ]
    )


def _tile_log_sum_exp(q: Tensor, k: Tensor, scale: float) -> Tensor:
    scores = torch.einsum("bmhd,bnhd->bmhn", q, k) * scale
    return torch.logsumexp(scores.to(torch.promote_types(scores.dtype, torch.float32)), dim=-1)
