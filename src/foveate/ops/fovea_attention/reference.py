"""The definition of Fovea attention: each query block and its nodes, averaged from the tokens."""

from collections.abc import Sequence

import torch
from torch import Tensor

from foveate.ops._packed.reference import bias_of_pairs

from .nodes import select_nodes


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
    size_bias: bool,
    stop_level: int | None,
) -> Tensor:
    """Compute softmax attention of `(tokens, heads, head_dim)` (Fovea, eq. 1-7)."""
    outs = []
    for queries, keys, values in zip(*(x.split(list(lengths)) for x in (q, k, v)), strict=True):
        blocks = queries.split(block_size)
        selected = select_nodes(len(blocks), k_neighbours, coverage, stop_level)
        for block, nodes in enumerate(selected):
            node_keys, node_values = (
                [_windows(x, *node, block_size) for node in nodes] for x in (keys, values)
            )
            scores = torch.einsum("ihd,jhd->hij", blocks[block], _averages(node_keys)) * scale
            if size_bias:
                sizes = [len(window) for windows in node_keys for window in windows]
                scores = scores + scores.new_tensor(sizes).log()
            if bias is not None:
                start = sum(
                    len(windows)
                    for windows, node in zip(node_keys, nodes, strict=True)
                    if node.start < block
                )
                position = torch.arange(scores.shape[2])
                distance = position[None, :] - position[start : start + scores.shape[1], None]
                scores = scores + bias_of_pairs(bias, distance, max_distance, bidirectional=True)
            outs.append(torch.einsum("hij,jhd->ihd", scores.softmax(-1), _averages(node_values)))
    return torch.cat(outs)


def _windows(x: Tensor, level: int, start: int, block_size: int) -> tuple[Tensor, ...]:
    """Cut 2^level blocks into windows of 2^level adjacent tokens."""
    tokens = x[start * block_size : (start + 2**level) * block_size]
    windows: tuple[Tensor, ...] = tokens.split(2**level)
    return windows


def _averages(nodes: Sequence[tuple[Tensor, ...]]) -> Tensor:
    """Average each window of each node (eq. 1)."""
    return torch.stack([window.mean(0) for windows in nodes for window in windows])
