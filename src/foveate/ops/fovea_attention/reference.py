"""Fovea attention as it is defined: each query block's row of nodes, averaged from the tokens."""

from collections.abc import Sequence

import torch
from torch import Tensor

from foveate.ops.relative_attention.buckets import buckets

from .plan import plan


def fovea_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    block_size: int,
    k_neighbours: int,
    coverage: str,
    bias: Tensor | None,
    lengths: Sequence[int],
    max_distance: int,
    scale: float,
) -> Tensor:
    """Softmax attention of `(n, heads, head_dim)` rows (Fovea, eq. 1-7)."""
    outs = []
    for queries, keys, values in zip(*(x.split(list(lengths)) for x in (q, k, v)), strict=True):
        blocks = queries.split(block_size)
        for block, nodes in enumerate(plan(len(blocks), k_neighbours, coverage)):
            rows = [_node(keys, node.level, node.start, block_size) for node in nodes]
            before = sum(
                len(row) for row, node in zip(rows, nodes, strict=True) if node.start < block
            )
            scores = torch.einsum("ihd,jhd->hij", blocks[block], torch.cat(rows)) * scale
            if bias is not None:
                position = torch.arange(scores.shape[2])
                own = position[before : before + scores.shape[1]]
                distance = position[None, :] - own[:, None]
                bucket = buckets(distance, len(bias), max_distance, bidirectional=True)
                scores = scores + bias[bucket].movedim(-1, 0)
            averages = torch.cat([_node(values, *node, block_size) for node in nodes])
            outs.append(torch.einsum("hij,jhd->ihd", scores.softmax(-1), averages))
    return torch.cat(outs)


def _node(x: Tensor, level: int, start: int, block_size: int) -> Tensor:
    """Return means of 2^level adjacent rows at a time, over 2^level blocks (eq. 1)."""
    field = x[start * block_size : (start + 2**level) * block_size]
    return torch.stack([window.mean(0) for window in field.split(2**level)])
