"""The families of a forest, grouped by size, so that each group is one batch of dense attentions.

A *family* is a parent and its children. Within a family every node attends to every other: a child
to its parent and siblings, the parent to its children. A leaf belongs to one family only, and so
does a root. Every other node belongs to two, once as a child and once as the parent, so its
attention is computed in two parts.
"""

from collections.abc import Collection
from typing import NamedTuple

import torch
from torch import Tensor

from foveate.ops.compiling import constant_in_exports


class DenseGroup(NamedTuple):
    """A batch of b dense attentions of one size.

    Attributes:
        queries: Nodes that attend, `(b, m)`.
        keys: Nodes that they attend to, `(b, n)`.
        partial: Whether some of the queries also attend to keys of another group.
    """

    queries: Tensor
    keys: Tensor
    partial: bool


class GroupedFamilies(NamedTuple):
    """The attention of a whole forest as dense groups.

    Attributes:
        groups: Groups that together have every node as a query exactly once.
        query_index: `(n,)`, the index of each node among the concatenated queries of `groups`.
        child_groups: The second parts: inner nodes as queries, their children as keys.
        inner_nodes: `(inner nodes,)`, the concatenated queries of `child_groups`.
    """

    groups: list[DenseGroup]
    query_index: Tensor
    child_groups: list[DenseGroup]
    inner_nodes: Tensor


@constant_in_exports
def group_families(
    parent: Tensor, first_child: Tensor, num_children: Tensor, edges: Collection[str]
) -> GroupedFamilies:
    """Group the families of a forest for attention along `edges`.

    Args:
        parent: Index of each node's parent, `(n,)` int64 in level order, -1 at a root.
        first_child: Index of each node's first child, `(n,)` int64.
        num_children: Number of children of each node, `(n,)` int64.
        edges: A subset of {"parent", "siblings", "children"}.
    """
    all_edges = {"parent", "siblings", "children"} <= set(edges)
    is_root = parent < 0
    # With all edges, a root is a query of its own family. Otherwise it starts as a lone node that
    # attends to itself, and its children are a second part.
    lone = (is_root & (num_children == 0) if all_edges else is_root).nonzero()
    groups = [DenseGroup(lone, lone, partial=not all_edges)]
    child_groups = []
    for parents, children, any_inner, are_roots in _families_by_kind(
        parent, first_child, num_children
    ):
        if all_edges and are_roots:
            members = torch.cat([parents, children], dim=1)
            groups.append(DenseGroup(members, members, any_inner))
            continue
        if "children" in edges:
            child_groups.append(DenseGroup(parents, children, True))
        if "siblings" not in edges:  # then every child attends without the others
            parents = parents.repeat_interleave(children.shape[1], dim=0)
            children = children.reshape(-1, 1)
        keys = torch.cat([parents, children], dim=1) if "parent" in edges else children
        groups.append(DenseGroup(children, keys, any_inner))
    queries = torch.cat([group.queries.flatten() for group in groups])
    inner_nodes = [group.queries.flatten() for group in child_groups]
    return GroupedFamilies(
        groups,
        torch.argsort(queries),
        child_groups,
        torch.cat(inner_nodes) if inner_nodes else lone[:0, 0],
    )


def _families_by_kind(
    parent: Tensor, first_child: Tensor, num_children: Tensor
) -> list[tuple[Tensor, Tensor, bool, bool]]:
    """Collect families of the same kind.

    A kind is the number of children, whether any child is an inner node, and whether the parent is
    a root.

    Returns:
        For each kind: parents `(b, 1)`, children `(b, m)`, and the two flags.
    """
    inner_nodes = num_children.nonzero()[:, 0]
    has_parent = parent >= 0
    # The largest number of grandchildren through one child says whether any child is inner.
    grandchildren = torch.zeros_like(parent).scatter_reduce_(
        0, parent.clamp(min=0), num_children * has_parent, "amax"
    )
    properties = [num_children, grandchildren > 0, ~has_parent]
    kinds, kind = torch.stack([x[inner_nodes].long() for x in properties], dim=1).unique(
        dim=0, return_inverse=True
    )
    by_kind = torch.argsort(kind, stable=True).split(torch.bincount(kind).tolist())
    families = []
    for (size, any_inner, are_roots), members in zip(kinds.tolist(), by_kind, strict=True):
        parents = inner_nodes[members][:, None]
        children = first_child[parents] + torch.arange(size, device=parents.device)
        families.append((parents, children, bool(any_inner), bool(are_roots)))
    return families
