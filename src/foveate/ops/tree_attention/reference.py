"""Tree attention as it is defined: a dense mask over all pairs."""

from collections.abc import Collection

import torch
from torch import Tensor


def tree_mask(parents: Tensor, edges: Collection[str]) -> Tensor:
    """Whether node i attends node j: `(n, n)` bool from parents `(n,)` (HDT, eq. 4-7).

    Every node attends itself; `edges` adds its parent, its siblings, its children. Roots are
    nobody's siblings.
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
    """Softmax attention of `(n, heads, head_dim)` rows under `tree_mask` (HDT, eq. 3)."""
    scores = torch.einsum("ihd,jhd->hij", q, k) * scale
    scores = scores.masked_fill(~tree_mask(parents, edges), -torch.inf)
    return torch.einsum("hij,jhd->ihd", scores.softmax(-1), v)
