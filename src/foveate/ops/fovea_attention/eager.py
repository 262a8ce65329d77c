"""Fovea attention in plain PyTorch: any device, linear memory, differentiable.

Attention of a query block to its nodes is relative attention between the block and windows of the
pyramid. Blocks that see the same number of windows are grouped, and the windows are gathered one
group at a time.
"""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from foveate.ops._packed.buckets import bias_by_distance
from foveate.ops._packed.grouped_attention import Group, grouped_attention, sets_per_tile
from foveate.ops.compiling import cached

from .nodes import select_nodes
from .pyramid import PyramidIndex, build_pyramid, window_sizes


def fovea_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    block_size: int,
    k_neighbours: int,
    coverage: str,
    bias: Tensor | None,
    lengths: tuple[int, ...],
    max_distance: int,
    scale: float,
    size_bias: bool,
    stop_level: int | None,
) -> Tensor:
    """Compute softmax attention of `(tokens, heads, head_dim)`."""
    if bias is not None:
        bias = bias_by_distance(bias, max_distance, bidirectional=True)
    groups = _block_groups(lengths, block_size, k_neighbours, coverage, stop_level, q.device)
    keys, values = (
        torch.cat(
            [
                build_pyramid(sequence, block_size, num_levels)
                for sequence, num_levels in zip(x.split(lengths), groups.num_levels, strict=True)
            ]
        )
        for x in (k, v)
    )
    key_bias = None
    if size_bias:
        sizes = [
            window_sizes(length, level, block_size, q.device)
            for length, num_levels in zip(lengths, groups.num_levels, strict=True)
            for level in range(num_levels)
        ]
        key_bias = torch.cat(sizes).to(keys.dtype).log()
    return grouped_attention(q, keys, values, bias, key_bias, groups, scale)


class _Block(NamedTuple):
    """A query block and the windows that it sees.

    Attributes:
        first_query: The index of its first query.
        num_before: The number of windows that it sees to its left.
        keys: The windows of its nodes in the pyramid, left to right.
    """

    first_query: int
    num_before: int
    keys: list[range]


class _BlockGroups:
    """Groups of the query blocks of packed sequences, of equal sizes and numbers of windows."""

    def __init__(
        self,
        lengths: tuple[int, ...],
        block_size: int,
        k_neighbours: int,
        coverage: str,
        stop_level: int | None,
        device: torch.device,
    ):
        self.device = device
        self.num_levels: list[int] = []
        self.blocks: dict[tuple[int, int], list[_Block]] = {}
        start = pyramid_start = 0
        for length in lengths:
            num_blocks = -(-length // block_size)
            selected = select_nodes(num_blocks, k_neighbours, coverage, stop_level)
            num_levels = 1 + max(node.level for nodes in selected for node in nodes)
            index = PyramidIndex(length, block_size, num_levels, pyramid_start)
            for block, nodes in enumerate(selected):
                keys = [index.window_indices(node) for node in nodes]
                sizes = [len(windows) for windows in keys]
                center = nodes.index((0, block))
                self.blocks.setdefault((sizes[center], sum(sizes)), []).append(
                    _Block(start + block * block_size, sum(sizes[:center]), keys)
                )
            self.num_levels.append(num_levels)
            start, pyramid_start = start + length, index.end

    def __iter__(self) -> Iterator[Group]:
        """Yield the groups, with as many blocks in each as make a tile."""
        for (m, n), blocks in self.blocks.items():
            size = sets_per_tile(m, n)
            for i in range(0, len(blocks), size):
                yield self._group(blocks[i : i + size], m, n)

    def _group(self, blocks: list[_Block], m: int, n: int) -> Group:
        offset = torch.arange(m)
        queries = torch.tensor([block.first_query for block in blocks])[:, None] + offset
        q_positions = torch.tensor([block.num_before for block in blocks])[:, None] + offset
        keys = torch.cat(
            [
                torch.arange(windows.start, windows.stop, windows.step)
                for block in blocks
                for windows in block.keys
            ]
        )
        keys = keys.view(len(blocks), n).flip(1)
        k_positions = torch.arange(n).flip(0).expand(len(blocks), n)
        queries, keys, q_positions, k_positions = (
            x.to(self.device) for x in (queries, keys, q_positions, k_positions)
        )
        return Group(queries, keys, q_positions, k_positions, diagonal=True)


_block_groups = cached(maxsize=16)(_BlockGroups)  # all layers of a model need the same ones
