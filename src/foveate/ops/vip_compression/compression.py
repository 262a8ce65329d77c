"""The compressed sequences of a layer: selection, rows, update of T(C) (VCC, Alg. 1 and 2)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from .layout import Layout
from .ragged import Ragged
from .scores import Candidates
from .steps import steps
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
        key_bias: `(r,)`, at least float32: log of the multiplicity, by which a row is attended as
            often as it has tokens; -inf for a segment that is split, whose parts are rows, and
            where a sequence has no token.
        lengths: rows of each sequence, host integers.
        splits: for each level but the last, what is split.
        layout: of the batch.
        tree: which the rows come from and `update` takes.
        backend: which `update` uses, as `compress` did.
    """

    rows: Tensor
    positions: Tensor
    key_bias: Tensor
    lengths: tuple[int, ...]
    splits: tuple[Split, ...]
    layout: Layout
    tree: Tree
    backend: str | None

    @property
    def multiplicity(self) -> Tensor:
        """How many tokens a row stands for `(r,)`, 0 for a segment that is split."""
        return self.key_bias.double().exp().round().long()

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
    vips: Tensor,
    tree: Tree,
    layout: Layout,
    score: Score,
    *,
    explore: bool = False,
    backend: str | None = None,
) -> Compressed:
    """Choose what to look at closely, and read it from the tree (VCC, Alg. 1).

    Args:
        vips: VIP tokens `(n_p, d)`.
        tree: the others.
        layout: of the batch.
        score: gives the scores of segments, by which the best are split.
        explore: split random segments of 10 % of the sequences, as in training.
        backend: "triton", "eager" or "auto"; if None, what the environment variable
            FOVEATE_BACKEND says, "auto" if nothing. "reference" is "eager" here.

    Returns:
        r = n_p + (coarsest segments) + (parts of all segments that are split) rows, a number that
        the layout knows: the device is not waited for.
    """
    run = steps(vips, backend)
    deltas, splits = list(tree.deltas), []
    means, numbers = tree.mean, None
    rows = torch.cat([vips, means.to(vips.dtype)])
    positions, key_bias = layout.first_positions, layout.first_key_bias
    for level, delta in enumerate(deltas):
        first = len(rows) - len(means)
        here = Candidates(
            rows[first:], positions[first:], key_bias[first:], layout.candidates[level]
        )
        scores = score(here)
        shown = _explored(scores, here.counts) if explore else scores
        best = _best(shown, here.counts, layout.splits[level])
        of_parts = layout.positions[level + 1], layout.key_biases[level + 1]
        ratio, deeper = delta.shape[1], level + 1 < len(deltas)
        chosen, segments, positions, key_bias = run.select(
            best, numbers, positions, key_bias, *of_parts, len(means), ratio
        )
        rows, means, deltas[level] = run.split(rows, means, delta, chosen, segments, deeper)
        splits.append(Split(scores, chosen, segments))
        if deeper:
            numbers = (
                segments[:, None] * ratio + torch.arange(ratio, device=rows.device)
            ).flatten()
    return Compressed(
        rows=_by_sequence(rows, layout),
        positions=_by_sequence(positions, layout),
        key_bias=_by_sequence(key_bias, layout).to(tree.mean.dtype),
        lengths=layout.lengths,
        splits=tuple(splits),
        layout=layout,
        tree=Tree(tree.mean, tuple(deltas)),
        backend=backend,
    )


def update(compressed: Compressed, rows: Tensor) -> tuple[Tensor, Tree]:
    """Replace rows by what a layer made of them (VCC, Alg. 2).

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
    run = steps(rows, compressed.backend)
    before = _by_level(compressed.rows, layout)
    vips, *levels = _by_level(rows, layout)
    deltas, means = list(tree.deltas), levels[-1]
    for level in reversed(range(len(deltas))):
        split, moved = compressed.splits[level], None
        if split.scores.requires_grad:
            moved = means.detach() - before[level + 2].detach()
        means, deltas[level] = run.merge(
            *(levels[level], means, deltas[level], split.chosen, split.segments),
            *(layout.counts[level + 1], split.scores, moved),
        )
    return vips, Tree(means, tuple(deltas))


def _best(scores: Tensor, candidates: Ragged, counts: Ragged) -> Tensor:
    """The candidates of highest score, so many of each sequence, in any order."""
    if candidates.lengths == counts.lengths:
        return torch.arange(len(scores), device=scores.device)
    padded = candidates.pad(scores.detach())
    if candidates.absent is not None:
        padded = padded.masked_fill(candidates.absent, -torch.inf)
    best = padded.topk(counts.longest).indices
    return counts.unpad(best if len(best) == 1 else best + candidates.starts[:, None])


def _explored(scores: Tensor, candidates: Ragged) -> Tensor:
    """Random scores for some of the sequences."""
    random = torch.rand(len(candidates.counts), device=scores.device) < EXPLORED
    explored = random.repeat_interleave(candidates.counts, output_size=len(scores))
    return torch.where(explored, torch.rand_like(scores), scores)


def _by_sequence(rows: Tensor, layout: Layout) -> Tensor:
    """Rows by level as rows by sequence."""
    return rows if layout.order is None else rows.index_select(0, layout.order)


def _by_level(rows: Tensor, layout: Layout) -> tuple[Tensor, ...]:
    """Undo `_by_sequence`."""
    if layout.back is not None:
        rows = rows.index_select(0, layout.back)
    return rows.split([sum(part.lengths) for part in (layout.vip_counts, *layout.candidates)])
