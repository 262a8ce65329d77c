"""Families of a forest, batched by size, as groups of rows that attend each other densely.

A *family* is a parent and its children, and inside a family everybody sees everybody: a child its
parent and siblings, the parent its children. A leaf belongs to one family only, and so does a root.
Every other node belongs to two, as a child and as the parent: its attention comes in two parts.
"""

from collections.abc import Collection
from typing import NamedTuple

import torch
from torch import Tensor

from .tree import Tree


class Group(NamedTuple):
    """b dense attentions of one size: rows of queries `(b, m)` and of their keys `(b, n)`."""

    queries: Tensor
    keys: Tensor
    in_two_parts: bool
    """Whether some of the queries also see keys of another group."""


class Plan(NamedTuple):
    """All of a forest's attention.

    Attributes:
        groups: every node as a query, exactly once.
        place: `(nodes,)`, where each node stands among the concatenated queries of `groups`.
        below: the second parts: inner nodes as queries, their children as keys.
        inner: `(inner nodes,)`, the concatenated queries of `below`.
    """

    groups: list[Group]
    place: Tensor
    below: list[Group]
    inner: Tensor


def plan(tree: Tree, edges: Collection[str]) -> Plan:
    """Plan the attention of level-ordered rows along `edges`, once per tree and edges."""
    key = frozenset(edges)
    if key not in tree.plans:
        tree.plans[key] = _plan(tree, key)
    return tree.plans[key]


def _plan(tree: Tree, edges: Collection[str]) -> Plan:
    full = {"parent", "siblings", "children"} <= set(edges)
    is_root = tree.parent < 0
    # With all edges a root is one of its family; else, as lone roots, it first sees just itself.
    alone = (is_root & (tree.num_children == 0) if full else is_root).nonzero()
    groups = [Group(alone, alone, in_two_parts=not full)]
    below = []
    for parents, children, any_inner, of_roots in _families(tree):
        if full and of_roots:
            members = torch.cat([parents, children], dim=1)
            groups.append(Group(members, members, any_inner))
            continue
        if "children" in edges:
            below.append(Group(parents, children, True))
        if "siblings" not in edges:  # then each child is by itself
            parents = parents.repeat_interleave(children.shape[1], dim=0)
            children = children.reshape(-1, 1)
        above = torch.cat([parents, children], dim=1) if "parent" in edges else children
        groups.append(Group(children, above, any_inner))
    rows = [group.queries.flatten() for group in groups]
    inner = [group.queries.flatten() for group in below]
    return Plan(
        groups, torch.argsort(torch.cat(rows)), below, torch.cat(inner) if inner else alone[:0, 0]
    )


def _families(tree: Tree) -> list[tuple[Tensor, Tensor, bool, bool]]:
    """Parents `(b, 1)`, children `(b, m)`, whether some child is inner, whether parents are roots.

    Families are kept together that agree in all three.
    """
    parents = tree.num_children.nonzero()[:, 0]
    has_parent = tree.parent >= 0
    # The most children among a family's children says whether any of them is inner.
    grandchildren = torch.zeros_like(tree.parent).scatter_reduce_(
        0, tree.parent.clamp(min=0), tree.num_children * has_parent, "amax"
    )
    features = [tree.num_children, grandchildren > 0, ~has_parent]
    kinds, kind = torch.stack([x[parents].long() for x in features], dim=1).unique(
        dim=0, return_inverse=True
    )
    by_kind = torch.argsort(kind, stable=True).split(torch.bincount(kind).tolist())
    families = []
    for (size, any_inner, of_roots), members in zip(kinds.tolist(), by_kind, strict=True):
        parent = parents[members][:, None]
        child = tree.first_child[parent] + torch.arange(size, device=parent.device)
        families.append((parent, child, bool(any_inner), bool(of_roots)))
    return families
