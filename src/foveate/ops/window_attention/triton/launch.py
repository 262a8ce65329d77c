"""How the kernels are launched: what makes scores of products, and sizes of tiles."""

from typing import NamedTuple

import torch
from torch import Tensor

from foveate.ops._triton.math import padded_width
from foveate.ops.relative_attention.triton.launch import Scoring

COUNTS = ("n", "heads", "n_tiles", "n_side", "left", "right", "reach", "middle")
"""Numbers that kernels are not compiled for anew."""


class Windows(NamedTuple):
    """Everything in a score but the product of query and key."""

    scoring: Scoring
    """The bias by distance, and the scale."""
    hidden: Tensor | None
    """Rows that no window shows, `(n,)` uint8."""
    left: int
    right: int

    @classmethod
    def by_table(
        cls,
        bias: Tensor | None,
        hidden: Tensor | None,
        left: int,
        right: int,
        max_distance: int,
        scale: float,
    ) -> "Windows":
        """Look a table `(num_buckets, heads)` up by distance."""
        scoring = Scoring.by_table(bias, None, None, None, False, max_distance, scale)
        return cls(scoring, None if hidden is None else hidden.view(torch.uint8), left, right)

    @property
    def tensors(self) -> tuple[Tensor | None, Tensor | None]:
        """Those that every kernel takes."""
        return self.scoring.bias, self.hidden

    @property
    def numbers(self) -> tuple[int | float, ...]:
        """Numbers that every kernel takes."""
        bias, reach, scale = self.scoring.bias, self.scoring.reach, self.scoring.scale
        middle = 0 if bias is None else bias.shape[1] // 2
        return self.left, self.right, reach, middle, scale


class SideRows(NamedTuple):
    """Side rows that the kernels of windows attend themselves: there are no biases."""

    k: Tensor
    v: Tensor
    lengths: list[int]

    @property
    def size(self) -> int:
        """Rows of a tile of them."""
        return min(64, padded_width(max(self.lengths)))


def rows_of(side: SideRows | None) -> tuple[Tensor | None, Tensor | None]:
    """Keys and values, as the kernels take them."""
    return (None, None) if side is None else (side.k, side.v)


def strides_of(side: SideRows | None) -> tuple[int, ...]:
    """Strides of the keys' and the values' rows and heads."""
    return (0,) * 4 if side is None else (*side.k.stride()[:2], *side.v.stride()[:2])


Options = tuple[tuple[int, int], dict[str, int]]
"""Queries and keys of a tile, and how Triton compiles the kernel for them."""

# What decides is how many programs fit on a multiprocessor at once, by their registers and by their
# tiles in shared memory: one computes weights while another multiplies.


def forward_options(q: Tensor) -> Options:
    """Tiles of the forward kernel."""
    if q.dtype == torch.float32:
        return _options(32, 32, 4, 2) if _wide(q) else _options(128, 32, 8, 2)
    return _options(128, 64, 8, 3) if _wide(q) else _options(64, 64, 4, 3)


def queries_options(q: Tensor) -> Options:
    """Tiles of the backward kernel that owns queries."""
    if q.dtype == torch.float32:
        return _options(32, 64, 8, 2) if _wide(q) else _options(64, 32, 4, 2)
    if _wide(q):
        return _options(64, 64, 4, 2)
    return _options(128, 64, 8, 3, maxnreg=128)  # two programs at once


def keys_options(q: Tensor) -> Options:
    """Tiles of the backward kernel that owns keys."""
    if q.dtype == torch.float32:
        return _options(64, 32, 8, 2) if _wide(q) else _options(32, 64, 4, 2)
    return _options(32, 64, 4, 2) if _wide(q) else _options(64, 64, 4, 3)


def _options(queries: int, keys: int, warps: int, stages: int, **others: int) -> Options:
    return (queries, keys), {"num_warps": warps, "num_stages": stages, **others}


def _wide(q: Tensor) -> bool:
    return padded_width(q.shape[-1]) > 64
