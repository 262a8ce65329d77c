"""Fovea attention in plain torch: any device, linear memory, differentiable.

A query block attending its row of nodes is relative attention between a block and rows of the
pyramid. Blocks that see as many rows are grouped, and the rows are gathered a group at a time.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from foveate.ops.relative_attention.eager import TILE, Group, grouped_attention

from .plan import plan
from .pyramid import Layout, pyramid


def fovea_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    block_size: int,
    k_neighbours: int,
    coverage: str,
    bias: Tensor | None,
    lengths: tuple[int, ...],
    scale: float,
) -> Tensor:
    """Attention of `(n, heads, head_dim)` rows; `bias` is by distance, `(heads, 2·reach + 1)`."""
    views = _views(lengths, block_size, k_neighbours, coverage, q.device)
    keys, values = (
        torch.cat(
            [
                pyramid(sequence, block_size, levels)
                for sequence, levels in zip(x.split(lengths), views.levels, strict=True)
            ]
        )
        for x in (k, v)
    )
    return grouped_attention(q, keys, values, bias, None, views, False, scale)


class _View(NamedTuple):
    """What a query block sees."""

    queries: int
    """Its first row among the queries."""
    before: int
    """How many of the rows it sees are left of its own block."""
    keys: list[range]
    """The rows of its nodes in the pyramid, left to right."""


class _Views:
    """Groups of the query blocks of packed sequences, those of one size that see as many rows."""

    def __init__(
        self,
        lengths: tuple[int, ...],
        block_size: int,
        k_neighbours: int,
        coverage: str,
        device: torch.device,
    ):
        self.device = device
        self.levels: list[int] = []
        self.alike: dict[tuple[int, int], list[_View]] = {}
        queries = rows = 0
        for length in lengths:
            selected = plan(-(-length // block_size), k_neighbours, coverage)
            levels = 1 + max(node.level for nodes in selected for node in nodes)
            layout = Layout(length, block_size, levels, rows)
            for block, nodes in enumerate(selected):
                keys = [layout.rows_of(node) for node in nodes]
                sizes = [len(some) for some in keys]
                own = nodes.index((0, block))
                view = _View(queries + block * block_size, sum(sizes[:own]), keys)
                self.alike.setdefault((sizes[own], sum(sizes)), []).append(view)
            self.levels.append(levels)
            queries, rows = queries + length, layout.end

    def __iter__(self) -> Iterator[Group]:
        """Yield the groups, as many blocks as make a tile in each."""
        for (m, n), views in self.alike.items():
            at_once = max(1, TILE // (m * n))
            for i in range(0, len(views), at_once):
                yield self._group(views[i : i + at_once], m, n)

    def _group(self, views: list[_View], m: int, n: int) -> Group:
        block = torch.arange(m)
        queries = torch.tensor([view.queries for view in views])[:, None] + block
        positions = torch.tensor([view.before for view in views])[:, None] + block
        keys = [
            torch.arange(some.start, some.stop, some.step) for view in views for some in view.keys
        ]
        row = torch.arange(n).flip(0).expand(len(views), n)
        tensors = (queries, torch.cat(keys).view(len(views), n).flip(1), positions, row)
        queries, rows, positions, row = (x.to(self.device) for x in tensors)
        return Group(queries, rows, positions, row, diagonal=True)


_views = lru_cache(maxsize=16)(_Views)  # the layers of a model ask for the same ones
