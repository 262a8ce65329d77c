"""Tree attention in plain PyTorch: any device, linear memory, differentiable.

Families of equal size are computed together (see `families.py` and `dense.py`), so no node's result
depends on the other families of the batch. For nodes whose attention is computed in two parts, the
parts are merged by their log-sum-exps.
"""

from collections.abc import Callable, Collection, Iterable

import torch
from torch import Tensor

from foveate.ops.compiling import uncompiled

from .dense import attend, attend_families, log_sum_exp
from .families import batch_families
from .tree import Tree

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
    outs = [attend(*qkv, scale) for qkv in zip(queries, keys, values, strict=True)]
    out = torch.cat(outs[: len(groups)]).index_select(0, query_index)
    if not child_groups:
        return out

    def log_sum_exps(indices: Iterable[int]) -> Tensor:
        return torch.cat([log_sum_exp(queries[i], keys[i], scale) for i in indices])

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
    cache. A leaf belongs to one family, so its old state is not needed once that family is read.
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
            out, out_lse = attend_families(q, k, v, batch)
            if not len(lse):
                merged = out_lse.new_zeros(len(inner_nodes), *out.shape[1:])
                lse = out_lse.new_full(merged.shape[:2], float("-inf"))
            for members in (batch.parents, batch.children):
                index = inner_index[batch.nodes[members]]
                share = torch.sigmoid(out_lse[members] - lse[index])[..., None]
                merged[index] = torch.lerp(merged[index], out[members].to(merged), share)
                lse[index] = torch.logaddexp(lse[index], out_lse[members])
            leaves = batch.leaves
            finished = finish(out.index_select(0, leaves), states.index_select(0, leaves))
            hidden_states.index_copy_(0, batch.nodes[leaves], finished)
        for start in range(0, len(inner_nodes), _MAX_MEMBERS):
            nodes = inner_nodes[start : start + _MAX_MEMBERS]
            attended = merged[start : start + _MAX_MEMBERS].to(q)
            hidden_states[nodes] = finish(attended, hidden_states[nodes])


def _gather(x: Tensor, nodes: list[Tensor]) -> list[Tensor]:
    """Gather x at each group's nodes, `(b, m, h, d)`.

    One index for all groups, so that the backward pass adds their gradients at once.
    """
    gathered = x.index_select(0, torch.cat([group.flatten() for group in nodes]))
    parts = gathered.split([group.numel() for group in nodes])
    return [part.unflatten(0, group.shape) for part, group in zip(parts, nodes, strict=True)]
