"""The compressed sequences of a layer: selection, rows, update of T(C) (vcc.txt, Alg. 1 and 2)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from .layout import Layout
from .ragged import Ragged
from .rows import read_rows, write_rows
from .scores import Candidates
from .tree import Tree

EXPLORED = 0.1
"""Share of sequences of which random segments are split in training."""


Score = Callable[[Candidates], Tensor]
"""How much each candidate matters to the VIP tokens of its sequence, `(c,)`: see `vip_scores`."""


class Split(NamedTuple):
    """What is split at a level.

    Attributes:
        scores: `(c,)`, of all candidates.
        chosen: `(s,)`, those candidates that are split, ascending.
        segments: `(s,)`, their numbers among all segments of the level.
    """

    scores: Tensor
    chosen: Tensor
    segments: Tensor


@dataclass(frozen=True)
class Compressed:
    """Sequences at the resolutions that a layer sees them in: [P; C'] of each, C' coarse to fine.

    Attributes:
        rows: `(r, d)` in the dtype of the VIP tokens.
        positions: `(r,)`, in their sequences.
        multiplicity: `(r,)`, how many tokens a row stands for: 0 for a segment that is split, whose
            parts are rows, and where a sequence has no token.
        lengths: rows of each sequence, host integers.
        splits: for each level but the last, what is split.
        layout: of the batch.
        tree: which the rows come from and `update` takes.
    """

    rows: Tensor
    positions: Tensor
    multiplicity: Tensor
    lengths: tuple[int, ...]
    splits: tuple[Split, ...]
    layout: Layout
    tree: Tree

    @property
    def key_bias(self) -> Tensor:
        """Log of the multiplicity `(r,)`, by which a row is attended as often as it has tokens."""
        return self.multiplicity.to(self.tree.mean.dtype).log()

    @property
    def resolution(self) -> Tensor:
        """How many tokens the segment has that each packed row of the batch is seen in, `(n,)`."""
        layout = self.layout
        seen = torch.full_like(layout.tokens, layout.budgets[0][0])
        sizes = [size for size, _ in layout.budgets[1:]] + [1]
        for (size, _), finer, split in zip(layout.budgets, sizes, self.splits, strict=True):
            seen.view(-1, size).index_fill_(0, split.segments, finer)
        return layout.join(torch.ones_like(layout.vips), seen)

    @property
    def scores(self) -> Tensor:
        """Score of the coarsest segment that each packed row of the batch is in, `(n,)`."""
        layout = self.layout
        coarsest = self.splits[0].scores.repeat_interleave(layout.budgets[0][0])
        return layout.join(coarsest.new_zeros(len(layout.vips)), coarsest)


def compress(
    vips: Tensor, tree: Tree, layout: Layout, score: Score, *, explore: bool = False
) -> Compressed:
    """Choose what to look at closely, and read it from the tree (vcc.txt, Alg. 1).

    Args:
        vips: VIP tokens `(n_p, d)`.
        tree: the others.
        layout: of the batch.
        score: gives the scores of segments, by which the best are split.
        explore: split random segments of 10 % of the sequences, as in training.

    Returns:
        r = n_p + (coarsest segments) + (parts of all segments that are split) rows, a number that
        the layout knows: the device is not waited for.
    """
    rows, deltas, splits = [tree.mean], list(tree.deltas), []
    positions, multiplicities = [layout.positions[0]], [layout.multiplicities[0]]
    segments = torch.arange(len(tree.mean), device=vips.device)
    for level, delta in enumerate(tree.deltas):
        here = Candidates(rows[-1], positions[-1], multiplicities[-1], layout.candidates[level])
        scores = score(here)
        shown = _explored(scores, here.counts) if explore else scores
        chosen = _best(shown, here.counts, layout.splits[level])
        segments = segments[chosen]
        splits.append(Split(scores, chosen, segments))
        multiplicities[-1] = here.multiplicity.index_fill(0, chosen, 0)
        parts, deltas[level] = read_rows(delta, segments)
        means = here.rows.index_select(0, chosen)
        rows.append((means[:, None] - parts).flatten(0, 1))
        of_parts = torch.arange(delta.shape[1], device=vips.device)
        of_parts = (segments[:, None] * delta.shape[1] + of_parts).flatten()
        positions.append(layout.positions[level + 1][of_parts])
        multiplicities.append(layout.multiplicities[level + 1][of_parts])
        segments = of_parts
    ones = torch.ones_like(layout.vip_positions)
    return Compressed(
        rows=_by_sequence([vips, *(some.to(vips.dtype) for some in rows)], layout),
        positions=_by_sequence([layout.vip_positions, *positions], layout),
        multiplicity=_by_sequence([ones, *multiplicities], layout),
        lengths=layout.lengths,
        splits=tuple(splits),
        layout=layout,
        tree=Tree(tree.mean, tuple(deltas)),
    )


def update(compressed: Compressed, rows: Tensor) -> tuple[Tensor, Tree]:
    """Replace rows by what a layer made of them (vcc.txt, Alg. 2).

    A segment that is split gets the mean of its parts; the tokens of one that is not move by what
    its mean moves by, without being touched. Scores get their gradient from the residual update of
    what they selected: it is taken (1 + s - stop(s)) times, s the score of the segment.

    Args:
        compressed: what `compress` gave; its tree is overwritten.
        rows: `(r, d)`.

    Returns:
        The VIP tokens `(n_p, d)`, and the tree.
    """
    layout, tree = compressed.layout, compressed.tree
    before = _by_level(compressed.rows, layout)
    vips, *levels = _by_level(rows, layout)
    levels = [level.to(tree.mean.dtype) for level in levels]
    deltas = list(tree.deltas)
    for level in reversed(range(len(deltas))):
        scores, chosen, segments = compressed.splits[level]
        size = (len(chosen), deltas[level].shape[1])
        parts = levels[level + 1].unflatten(0, size)
        if scores.requires_grad:
            s = scores[chosen][:, None, None].to(parts.dtype)
            old = before[level + 2].to(parts.dtype).unflatten(0, size)
            parts = parts + (parts - old) * (s - s.detach())
        count = layout.counts[level + 1].view(len(layout.counts[level]), size[1])
        count = count.index_select(0, segments)[:, :, None]
        mean = (parts * count).sum(1) / count.sum(1).clamp(min=1)
        levels[level] = levels[level].index_copy(0, chosen, mean)
        deltas[level] = write_rows(deltas[level], segments, mean[:, None] - parts)
    return vips, Tree(levels[0], tuple(deltas))


def _best(scores: Tensor, candidates: Ragged, counts: Ragged) -> Tensor:
    """The candidates of highest score, so many of each sequence, ascending."""
    if candidates.lengths == counts.lengths:
        return torch.arange(len(scores), device=scores.device)
    padded = candidates.pad(scores.detach())
    if candidates.absent is not None:
        padded = padded.masked_fill(candidates.absent, -torch.inf)
    best = padded.topk(counts.longest).indices + candidates.starts[:, None]
    return counts.unpad(best).sort().values


def _explored(scores: Tensor, candidates: Ragged) -> Tensor:
    """Random scores for some of the sequences."""
    random = torch.rand(len(candidates.counts), device=scores.device) < EXPLORED
    explored = random.repeat_interleave(candidates.counts, output_size=len(scores))
    return torch.where(explored, torch.rand_like(scores), scores)


def _by_sequence(levels: list[Tensor], layout: Layout) -> Tensor:
    """Rows by level as rows by sequence."""
    rows = torch.cat(levels)
    return rows if layout.order is None else rows.index_select(0, layout.order)


def _by_level(rows: Tensor, layout: Layout) -> tuple[Tensor, ...]:
    """Undo `_by_sequence`."""
    if layout.back is not None:
        rows = rows.index_select(0, layout.back)
    return rows.split([sum(part.lengths) for part in (layout.vip_counts, *layout.candidates)])
