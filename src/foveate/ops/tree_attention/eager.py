"""Tree attention in plain PyTorch: any device, linear memory, differentiable.

Families of equal size are computed together (see `families.py` and `dense.py`), so no node's result
depends on the other families of the batch. For nodes whose attention is computed in two parts, the
parts are merged by their log-sum-exps.
"""

from collections.abc import Collection, Iterable

import torch
from torch import Tensor

from foveate.ops.compiling import uncompiled

from .dense import attend, log_sum_exp
from .tree import Tree


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


def _gather(x: Tensor, nodes: list[Tensor]) -> list[Tensor]:
    """Gather x at each group's nodes, `(b, m, h, d)`.

    One index for all groups, so that the backward pass adds their gradients at once.
    """
    gathered = x.index_select(0, torch.cat([group.flatten() for group in nodes]))
    parts = gathered.split([group.numel() for group in nodes])
    return [part.unflatten(0, group.shape) for part, group in zip(parts, nodes, strict=True)]
