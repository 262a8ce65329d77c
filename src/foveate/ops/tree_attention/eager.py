"""Tree attention in plain PyTorch: any device, linear memory, differentiable.

Families of equal size are computed together (see `families.py`), so nothing is padded and no
node's result depends on the other families of the batch. For nodes whose attention is computed in
two parts, the parts are merged by their log-sum-exps.
"""

from collections.abc import Callable, Collection, Iterable

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from foveate.ops.compiling import uncompiled

from .families import FamilyBatch, batch_families
from .tree import Tree

_MAX_SCORES = 1 << 22
"""Attention scores that are materialized at a time for log-sum-exps."""

_MAX_MEMBERS = 2048
"""Members of the families that a layer reads at a time: few enough to stay in cache."""


@uncompiled  # its loop over the groups would be recompiled for every tree
def tree_attention(
    q: Tensor, k: Tensor, v: Tensor, tree: Tree, edges: Collection[str], scale: float
) -> Tensor:
    """Compute the attention of level-ordered `(n, heads, head_dim)` over the families of `tree`."""
    groups, query_index, child_groups, inner_nodes = tree.group_families(edges)
    all_groups = [*groups, *child_groups]
    queries = _gather(q, [group.queries for group in all_groups])
    keys, values = (_gather(x, [group.keys for group in all_groups]) for x in (k, v))
    outs = [_attend(*qkv, scale) for qkv in zip(queries, keys, values, strict=True)]
    out = torch.cat(outs[: len(groups)]).index_select(0, query_index)
    if not child_groups:
        return out

    def log_sum_exps(indices: Iterable[int]) -> Tensor:
        return torch.cat([_log_sum_exp(queries[i], keys[i], scale) for i in indices])

    partial = [i for i, group in enumerate(groups) if group.partial]
    nodes = torch.cat([groups[i].queries.flatten() for i in partial])
    partial_lse = log_sum_exps(partial)
    lse = partial_lse.new_zeros(q.shape[:2]).index_copy(0, nodes, partial_lse)[inner_nodes]
    child_out = torch.cat(outs[len(groups) :])
    child_lse = log_sum_exps(range(len(groups), len(all_groups)))
    child_share = torch.sigmoid(child_lse - lse)[..., None]  # of the softmax's total mass
    merged = torch.lerp(out[inner_nodes].to(lse), child_out.to(lse), child_share)
    return out.index_copy(0, inner_nodes, merged.to(out))


@uncompiled
def update_by_family(
    hidden_states: Tensor,
    tree: Tree,
    layers: Iterable[tuple[Callable[[Tensor], tuple[Tensor, ...]], Callable[..., Tensor]]],
) -> None:
    """Apply layers of tree attention in place, without gradients, some families at a time.

    Only `hidden_states` has as many rows as there are nodes; all else is small enough to stay in
    cache. A leaf belongs to one family, so nobody needs its old state once that family is read.
    An inner node belongs to two, whose parts of its attention are merged; it is updated last.

    Args:
        hidden_states: `(n, size)`, level-ordered.
        tree: The forest.
        layers: For each layer a function from states `(m, size)` to queries, keys and values
            `(m, heads, head_dim)`, and one from the attention's output `(m, heads, head_dim)` and
            the states to new states. Both treat every row by itself.
    """
    is_inner = tree.num_children > 0
    inner_nodes = is_inner.nonzero()[:, 0]
    inner_index = is_inner.cumsum(0) - 1
    batches = batch_families(tree.parent, tree.first_child, tree.num_children, _MAX_MEMBERS)
    for project, finish in layers:
        merged = lse = hidden_states.new_empty(0)
        for batch in batches:
            states = hidden_states.index_select(0, batch.nodes)
            q, k, v = project(states)
            out, out_lse = _attend_within(q, k, v, batch)
            if not len(lse):
                merged = out_lse.new_zeros(len(inner_nodes), *out.shape[1:])
                lse = out_lse.new_full(merged.shape[:2], float("-inf"))
            for members in (batch.parents, batch.children):
                index = inner_index[batch.nodes[members]]
                share = torch.sigmoid(out_lse[members] - lse[index])[..., None]
                merged[index] = torch.lerp(merged[index], out[members].to(merged), share)
                lse[index] = torch.logaddexp(lse[index], out_lse[members])
            leaves = batch.leaves
            hidden_states[batch.nodes[leaves]] = finish(out[leaves], states[leaves])
        for start in range(0, len(inner_nodes), _MAX_MEMBERS):
            nodes = inner_nodes[start : start + _MAX_MEMBERS]
            attended = merged[start : start + _MAX_MEMBERS].to(q)
            hidden_states[nodes] = finish(attended, hidden_states[nodes])


def _attend_within(q: Tensor, k: Tensor, v: Tensor, batch: FamilyBatch) -> tuple[Tensor, Tensor]:
    """Attend within families.

    Returns:
        The output `(members, heads, head_dim)`, that of parents from their children only unless
        they are roots; and for inner nodes the log-sum-exp of the scores, `(members, heads)`.
    """
    scale = q.shape[-1] ** -0.5
    out = torch.empty_like(q)
    lse = q.new_zeros(q.shape[:2], dtype=torch.promote_types(q.dtype, torch.float32))
    sizes = [number * size for number, size, _, _ in batch.groups]
    parts = zip(*(x.split(sizes) for x in (q, k, v, out, lse)), strict=True)
    for (number, size, any_inner, are_roots), part in zip(batch.groups, parts, strict=True):
        q, k, v, group_out, group_lse = (x.unflatten(0, (number, size)) for x in part)
        everyone, parents, children = slice(None), slice(1), slice(1, None)
        attentions = (
            [(everyone, everyone, any_inner)]
            if are_roots
            else [(children, everyone, any_inner), (parents, children, True)]
        )
        for queries, keys, are_inner in attentions:
            attended = _attend(q[:, queries], k[:, keys], v[:, keys], scale)
            group_out[:, queries] = attended.unflatten(0, (number, -1))
            if are_inner:
                part_lse = _log_sum_exp(q[:, queries], k[:, keys], scale)
                group_lse[:, queries] = part_lse.unflatten(0, (number, -1))
    return out, lse


def _gather(x: Tensor, nodes: list[Tensor]) -> list[Tensor]:
    """Gather x at each group's nodes, `(b, m, h, d)`.

    One index for all groups, so that the backward pass adds their gradients at once.
    """
    gathered = x.index_select(0, torch.cat([group.flatten() for group in nodes]))
    parts = gathered.split([group.numel() for group in nodes])
    return [part.unflatten(0, group.shape) for part, group in zip(parts, nodes, strict=True)]


def _attend(q: Tensor, k: Tensor, v: Tensor, scale: float) -> Tensor:
    """Attend within b groups, q `(b, m, h, d)`, k and v `(b, n, h, d)`, to `(bm, h, d)`."""
    q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
    out = F.scaled_dot_product_attention(q, k, v, scale=scale)
    return out.transpose(1, 2).flatten(0, 1)


def _log_sum_exp(q: Tensor, k: Tensor, scale: float) -> Tensor:
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
