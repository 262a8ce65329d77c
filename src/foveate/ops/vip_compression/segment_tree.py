"""T(C): a sequence as the means of its coarsest segments and the differences to all finer ones.

Level 0 holds the coarsest segments. Every segment of a level is divided into the same number of
segments of the next, its parts, and the last level holds the tokens. A part is stored as
Δ = mean of its segment - its own mean (VCC, eq. 15), and rebuilt from the top (eq. 16). When the
mean of a segment changes and its parts are left alone, all of them move with it without being
touched, so an update costs no more than the tokens it changes.

Means and Δs are at least float32: in the difference of two bfloat16 vectors a token would lose what
its segment's mean has in common with an outlier, and what is read must be what was written.
"""

from collections.abc import Sequence
from types import ModuleType
from typing import NamedTuple

import torch
from torch import Tensor

from foveate.ops.backends import choose

from . import eager as _eager


class SegmentTree(NamedTuple):
    """The segments of one sequence, or of several concatenated ones.

    Attributes:
        means: Means of the coarsest segments, `(segments, d)`.
        deltas: For each level but the last, the Δs of its segments' parts, `(segments, ratio, d)`.
    """

    means: Tensor
    deltas: tuple[Tensor, ...]

    @classmethod
    def from_tokens(
        cls, tokens: Tensor, counts: Sequence[Tensor], *, backend: str | None = None
    ) -> "SegmentTree":
        """Divide tokens into segments.

        Args:
            tokens: `(tokens, d)`, any floating dtype; zero where the last segment of a sequence is
                padded.
            counts: For each level, the number of tokens in each segment, `(segments,)`; on the last
                level 1, and 0 at padding.
            backend: See `compress`.

        Example:
            >>> tokens = torch.tensor([[1.0], [3.0], [5.0], [0.0]])
            >>> counts = [torch.tensor([2, 1]), torch.tensor([1, 1, 1, 0])]
            >>> tree = SegmentTree.from_tokens(tokens, counts)
            >>> tree.means.flatten().tolist(), tree.deltas[0].flatten().tolist()
            ([2.0, 5.0], [1.0, -1.0, 0.0, 5.0])
        """
        means, deltas = implementation(tokens, backend).build(tokens, counts)
        return cls(means, tuple(deltas))

    def to_tokens(self, dtype: torch.dtype | None = None, *, backend: str | None = None) -> Tensor:
        """Rebuild all tokens, `(tokens, d)`.

        Args:
            dtype: Dtype of the tokens; that of the tree if None.
            backend: See `compress`.
        """
        spread, values = implementation(self.means, backend).spread, self.means
        for delta in self.deltas:
            values = spread(values, delta, dtype if delta is self.deltas[-1] else None)
        return values


def implementation(x: Tensor, backend: str | None) -> ModuleType:
    """Return the module whose `build`, `select`, `split`, `merge` and `spread` run on x."""
    if choose(backend, x, widest=None) == "triton":
        from . import triton as _triton

        return _triton
    return _eager
