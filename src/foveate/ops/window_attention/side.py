"""Rows that every query of their sequence sees, wherever its window is."""

from collections.abc import Sequence
from typing import NamedTuple

from torch import Tensor


class Side(NamedTuple):
    """Rows beside the sequence: global tokens seen as keys, summaries of blocks.

    Attributes:
        k: keys `(side_rows, heads, head_dim)`, those of one sequence after those of another.
        v: values, same shape.
        lengths: side rows of each sequence, host integers, 0 where it has none.
        bias: `(num_buckets, heads)`, a table of T5's buckets, any floating dtype; none where None.
        positions: `(tokens,)` integers, where each query stands among the side rows of its
            sequence, which stand at 0, 1, …; given with a bias, and only then.
    """

    k: Tensor
    v: Tensor
    lengths: Sequence[int]
    bias: Tensor | None = None
    positions: Tensor | None = None

    def of_heads(self, heads: slice) -> "Side":
        """Some of the heads."""
        bias = None if self.bias is None else self.bias[:, heads]
        return self._replace(k=self.k[:, heads], v=self.v[:, heads], bias=bias)
