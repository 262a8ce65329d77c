"""Tree attention by its definition: a dense mask over all pairs of nodes."""

from collections.abc import Collection

import torch
from torch import Tensor


def tree_mask(parents: Tensor, edges: Collection[str]) -> Tensor:
    """Compute which nodes attend to which (HDT, eq. 4-7).

    Every node attends to itself; `edges` adds its parent, its siblings and its children. Roots have
    no siblings.

    Args:
        parents: Index of each node's parent, `(n,)`, -1 at a root.
        edges: A subset of {"parent", "siblings", "children"}.

    Returns:
        `(n, n)` bool, true where the node of the row attends to the node of the column.
    """
    i, j = parents[:, None], parents[None, :]
    node = torch.arange(len(parents), device=parents.device)
    mask = node[:, None] == node[None, :]
    if "parent" in edges:
        mask = mask | (i == node[None, :])
    if "siblings" in edges:
        mask = mask | ((i == j) & (i >= 0))
    if "children" in edges:
        mask = mask | (node[:, None] == j)
    return mask


def tree_attention(
    q: Tensor, k: Tensor, v: Tensor, parents: Tensor, edges: Collection[str], scale: float
) -> Tensor:
    """Compute the softmax attention of `(n, heads, head_dim)` under `tree_mask` (HDT, eq. 3)."""
    scores = torch.einsum("ihd,jhd->hij", q, k) * scale
    scores = scores.masked_fill(~tree_mask(parents, edges), -torch.inf)
    return torch.einsum("hij,jhd->ihd", scores.softmax(-1), v)
