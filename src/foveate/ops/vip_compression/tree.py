"""T(C): a sequence as the means of its coarsest segments and what every finer one differs by.

Level 0 holds the coarsest segments; every segment of a level is parted into equally many of the
next, and the last level holds the tokens. A segment is stored as Δ = parent's mean - own mean
(VCC, eq. 15), and rebuilt from the top (eq. 16). When a segment's mean changes and its parts
are left alone, all of them move along, though nothing of them is touched: that is why an update
costs no more than the rows it changes.

Means and Δs are float32 at least: in the difference of two rows of bfloat16 a token would lose what
its segment's mean has in common with an outlier, and what is read must be what was written.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from .steps import steps


class Tree(NamedTuple):
    """A sequence, or the segments of several one after the other.

    Attributes:
        mean: of the coarsest segments, `(segments, d)`.
        deltas: for each level but the last, the Δ of its segments' parts, `(segments, ratio, d)`.
    """

    mean: Tensor
    deltas: tuple[Tensor, ...]


def build(tokens: Tensor, counts: Sequence[Tensor], *, backend: str | None = None) -> Tree:
    """Cut tokens into segments.

    Args:
        tokens: `(tokens, d)`, any floating dtype; zero where a last segment lacks tokens.
        counts: for each level, how many tokens a segment has `(segments,)`; those of the
            last level are 1 and, where there is no token, 0.
        backend: see `compress`.

    Example:
        >>> tokens = torch.tensor([[1.0], [3.0], [5.0], [0.0]])
        >>> tree = build(tokens, [torch.tensor([2, 1]), torch.tensor([1, 1, 1, 0])])
        >>> tree.mean.flatten().tolist(), tree.deltas[0].flatten().tolist()
        ([2.0, 5.0], [1.0, -1.0, 0.0, 5.0])
    """
    means, deltas = steps(tokens, backend).build(tokens, counts)
    return Tree(means, tuple(deltas))


def read(tree: Tree, level: int, segments: Tensor) -> Tensor:
    """Rebuild segments `(r,)` of a level from the top (VCC, eq. 16): `(r, d)`."""
    path = [segments]
    for delta in reversed(tree.deltas[:level]):
        path.insert(0, path[0] // delta.shape[1])
    rows = tree.mean[path[0]]
    for delta, parent, own in zip(tree.deltas, path, path[1:], strict=False):
        rows = rows - delta[parent, own % delta.shape[1]]
    return rows


def materialize(
    tree: Tree, dtype: torch.dtype | None = None, *, backend: str | None = None
) -> Tensor:
    """Rebuild all tokens, `(tokens, d)`.

    Args:
        tree: what to rebuild them from.
        dtype: of the tokens; that of the tree if None.
        backend: see `compress`.
    """
    run, (rows, deltas) = steps(tree.mean, backend), tree
    for delta in deltas:
        rows = run.spread(rows, delta, dtype if delta is deltas[-1] else None)
    return rows
