# Triton's dialect: kernels' arguments have no types, compile-time constants are capitals.
# ruff: noqa: N803
# mypy: disable-error-code=no-untyped-def
"""The scores of a pair of tiles, near or beyond the reach of the bias, and the kernels' options.

As in relative attention, whose loops are similar, what matters is how many programs fit on a
multiprocessor at once, given their registers and their tiles in shared memory. Cards with less
shared memory than an H200 get smaller tiles, then fewer stages.
"""

from typing import NamedTuple

import triton
import triton.language as tl
from torch import Tensor

from foveate.ops._packed.triton.bias import biased_scores
from foveate.ops._triton.card import H200, attention_bytes, card_of, row_bytes, shrink


class TileSizes(NamedTuple):
    """The numbers of queries and of keys in a tile."""

    queries: int
    keys: int

    @classmethod
    def largest(cls, q: Tensor) -> "TileSizes":
        """Choose sizes that suit the matrix units and shared memory."""
        width = row_bytes(q)
        if width <= 128:
            sizes = 64, 64
        elif width <= 256:
            sizes = 128, 64
        else:
            sizes = 64, 32
        limit = card_of(q.device).shared_memory
        if limit < H200.shared_memory:
            sizes = shrink(sizes, lambda queries, keys: _backward_bytes(q, queries, keys, 1), limit)
        return cls(*sizes)

    def within(self, block_size: int) -> "TileSizes":
        """Return sizes of at most a block."""
        size = max(16, 1 << (block_size - 1).bit_length())
        return TileSizes(min(size, self.queries), min(size, self.keys))


def _backward_bytes(q: Tensor, queries: int, keys: int, num_stages: int) -> int:
    """Return an upper bound of the shared memory of either backward kernel, before Hopper."""
    return max(
        attention_bytes(q, queries, keys, num_stages),
        attention_bytes(q, keys, min(queries, 64), num_stages),
    )


def forward_options(q: Tensor, sizes: TileSizes) -> dict[str, int]:
    """Return Triton's options for the forward kernel."""
    narrow = {"num_warps": 4, "num_stages": 3, "maxnreg": 128}
    return _fitted(q, sizes, narrow if row_bytes(q) <= 128 else _wide_options(q))


def queries_options(q: Tensor, sizes: TileSizes) -> dict[str, int]:
    """Return Triton's options for the backward kernel that finishes tiles of queries."""
    narrow = {"num_warps": 4, "num_stages": 3, "maxnreg": 168}
    return _fitted(q, sizes, narrow if row_bytes(q) <= 128 else _wide_options(q))


def keys_options(q: Tensor, sizes: TileSizes) -> dict[str, int]:
    """Return Triton's options for the kernel that finishes tiles of keys, and its ROWS."""
    is_narrow = row_bytes(q) <= 128
    options = {"num_warps": 4, "num_stages": 2} if is_narrow else _wide_options(q)
    rows = min(sizes.queries, 64 if is_narrow else 32)
    return _fitted(q, sizes, options) | {"ROWS": rows}


def _wide_options(q: Tensor) -> dict[str, int]:
    return {"num_warps": 8, "num_stages": 2 if row_bytes(q) <= 256 else 1}


def _fitted(q: Tensor, sizes: TileSizes, options: dict[str, int]) -> dict[str, int]:
    """Reduce the stages to those that fit into the card's shared memory."""
    limit, stages = card_of(q.device).shared_memory, options["num_stages"]
    if limit < H200.shared_memory:
        while stages > 1 and _backward_bytes(q, *sizes, stages) > limit:
            stages -= 1
    return options | {"num_stages": stages}


@triton.jit
def far_biases(bias, reach):
    """Return the biases of keys beyond reach before and after their queries; 0 without a bias."""
    before, after = 0.0, 0.0
    if bias is not None:
        before, after = tl.load(bias - reach), tl.load(bias + reach)
    return before, after


@triton.jit
def load_log_sizes(log_sizes, first, step, count, KEYS: tl.constexpr):
    """Load the logarithms of the sizes of a tile's windows; 0 beyond the last, or without them."""
    key = tl.arange(0, KEYS)
    sizes = tl.zeros([KEYS], tl.float32)
    if log_sizes is not None:
        sizes = tl.load(log_sizes + first + step * key, mask=key < count, other=0.0)
    return sizes


@triton.jit
def near_scores(products, distance, met, bias, scale):
    """Compute `biased_scores`, with -inf where `met` is false."""
    return tl.where(met, biased_scores(products, distance, bias, scale), float("-inf"))
