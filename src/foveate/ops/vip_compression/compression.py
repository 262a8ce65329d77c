"""The compressed sequences of a layer: selecting and updating segments (VCC, Alg. 1, 2).

Which segments are split is not differentiable. As in the published code, a token therefore carries
a score of value 1, through which gradients reach the attention that ranked the segments. With s(p)
= 1 + p - stop(p), of value 1, where p is the share of a segment in its sequence's scores: s(p) for
the parts of a segment that is split, s(1 - p) for one that is not, and the product over levels. The
logarithm of a token's score is part of its bias as a key, and what a layer adds to the token is
multiplied by the score.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from .layout import CompressionLayout, PackedLengths
from .scores import CandidateSegments
from .segment_tree import SegmentTree, implementation

Score = Callable[[CandidateSegments], Tensor]
"""How much each candidate matters to the VIP tokens of its sequence, `(c,)`: see `vip_scores`."""


class LevelSplit(NamedTuple):
    """The segments of one level that are split.

    Attributes:
        scores: `(c,)`, of all candidates.
        chosen: `(s,)`, the candidates that are split, ascending.
        segments: `(s,)`, their indices among all segments of the level.
    """

    scores: Tensor
    chosen: Tensor
    segments: Tensor


@dataclass(frozen=True)
class Compressed:
    """Sequences [P; C'] in the resolutions that a layer sees them in, C' from coarse to fine.

    Attributes:
        hidden_states: `(t, d)` in the dtype of the VIP tokens.
        positions: `(t,)`, positions in the sequences.
        key_bias: `(t,)`, at least float32: the logarithm of the multiplicity, with which a token is
            attended to as often as it stands for tokens; -inf for a segment that is split, whose
            parts are tokens themselves, and for padding. With the gradient of `log_scores`.
        log_scores: `(t,)`, the logarithms of the tokens' scores, which are 0 and have a gradient;
            None if the scores of segments have none.
        lengths: Tokens of each sequence, on the host.
        splits: For each level but the last, the segments that are split.
        layout: Layout of the batch.
        tree: The tree that the tokens were read from; `update` overwrites it.
        backend: The backend of `compress`, which `update` uses too.
    """

    hidden_states: Tensor
    positions: Tensor
    key_bias: Tensor
    log_scores: Tensor | None
    lengths: tuple[int, ...]
    splits: tuple[LevelSplit, ...]
    layout: CompressionLayout
    tree: SegmentTree
    backend: str | None

    @property
    def multiplicity(self) -> Tensor:
        """The number of tokens that each compressed token stands for `(t,)`, 0 if it is split."""
        return self.key_bias.double().exp().round().long()

    @property
    def resolution(self) -> Tensor:
        """The size of the segment in which the layer sees each packed token, `(n,)`."""
        layout = self.layout
        resolution = torch.full_like(layout.token_index, layout.budgets[0][0])
        finer_sizes = [size for size, _ in layout.budgets[1:]] + [1]
        for (size, _), finer, split in zip(layout.budgets, finer_sizes, self.splits, strict=True):
            resolution.view(-1, size).index_fill_(0, split.segments, finer)
        return layout.combine(torch.ones_like(layout.vip_index), resolution)

    @property
    def scores(self) -> Tensor:
        """The score of the coarsest segment of each packed token, 0 at VIP tokens, `(n,)`."""
        layout = self.layout
        scores = self.splits[0].scores.repeat_interleave(layout.budgets[0][0])
        return layout.combine(scores.new_zeros(len(layout.vip_index)), scores)


def compress(
    vips: Tensor,
    tree: SegmentTree,
    layout: CompressionLayout,
    score: Score,
    *,
    explore: float = 0.0,
    backend: str | None = None,
) -> Compressed:
    """Choose the segments to split and read them from the tree (VCC, Alg. 1).

    The number of compressed tokens is known from the layout, so this does not synchronize with the
    device.

    Args:
        vips: VIP tokens, `(n_p, d)`.
        tree: The other tokens.
        layout: Layout of the batch.
        score: Computes the scores of candidates, of which the best are split.
        explore: The share of the sequences of which random segments are split, as in training.
        backend: One of `foveate.ops.backends.BACKENDS`, of which "reference" is "eager"; if None,
            the environment's, or "auto".

    Returns:
        [P; C'] with VIP tokens, coarsest segments, and the parts of all segments that are split.
    """
    steps = implementation(vips, backend)
    deltas, splits = list(tree.deltas), []
    means, candidate_segments = tree.means, None
    tokens = torch.cat([vips, means.to(vips.dtype)])
    positions, key_bias = layout.initial_positions, layout.initial_key_bias
    for level, delta in enumerate(deltas):
        first = len(tokens) - len(means)
        counts = layout.candidate_counts[level]
        candidates = CandidateSegments(tokens[first:], positions[first:], key_bias[first:], counts)
        scores = score(candidates)
        ranking = _explore(scores, candidates, explore) if explore else scores
        best = _best(ranking, counts, layout.split_counts[level])
        ratio, is_last = delta.shape[1], level + 1 == len(deltas)
        chosen, segments, positions, key_bias = steps.select(
            best,
            candidate_segments,
            positions,
            key_bias,
            layout.segment_positions[level + 1],
            layout.segment_biases[level + 1],
            len(means),
            ratio,
        )
        tokens, means, deltas[level] = steps.split(
            tokens, means, delta, chosen, segments, not is_last
        )
        splits.append(LevelSplit(scores, chosen, segments))
        if not is_last:
            parts = segments[:, None] * ratio + torch.arange(ratio, device=tokens.device)
            candidate_segments = parts.flatten()
    key_bias = _by_sequence(key_bias, layout).to(tree.means.dtype)
    log_scores = _log_scores(splits, [delta.shape[1] for delta in deltas], layout)
    return Compressed(
        hidden_states=_by_sequence(tokens, layout),
        positions=_by_sequence(positions, layout),
        key_bias=key_bias if log_scores is None else key_bias + log_scores,
        log_scores=log_scores,
        lengths=layout.lengths,
        splits=tuple(splits),
        layout=layout,
        tree=SegmentTree(tree.means, tuple(deltas)),
        backend=backend,
    )


def update(compressed: Compressed, hidden_states: Tensor) -> tuple[Tensor, SegmentTree]:
    """Replace the compressed tokens by the output of a layer (VCC, Alg. 2).

    A segment that is split gets the mean of its parts. The tokens of other segments move with their
    segment's mean without being touched.

    Args:
        compressed: The output of `compress`; its tree is overwritten.
        hidden_states: `(t, d)`.

    Returns:
        The VIP tokens `(n_p, d)`, and the tree.
    """
    layout, tree = compressed.layout, compressed.tree
    steps = implementation(hidden_states, compressed.backend)
    if compressed.log_scores is not None:
        added = (hidden_states - compressed.hidden_states).detach()
        log_scores = compressed.log_scores[:, None].to(hidden_states.dtype)
        hidden_states = torch.addcmul(hidden_states, added, log_scores)
    vips, *levels = _by_level(hidden_states, layout)
    deltas, means = list(tree.deltas), levels[-1]
    for level in reversed(range(len(deltas))):
        split = compressed.splits[level]
        means, deltas[level] = steps.merge(
            levels[level],
            means,
            deltas[level],
            split.chosen,
            split.segments,
            layout.token_counts[level + 1],
        )
    return vips, SegmentTree(means, tuple(deltas))


def _log_scores(
    splits: Sequence[LevelSplit], ratios: Sequence[int], layout: CompressionLayout
) -> Tensor | None:
    """Return the logarithms of the scores of all tokens, in sequence order; see `Compressed`."""
    if not splits[0].scores.requires_grad:
        return None
    log_score = splits[0].scores.new_zeros(())  # of the segments that a candidate is part of
    levels = [log_score.expand(len(layout.vip_index))]
    for (scores, chosen, _), ratio in zip(splits, ratios, strict=True):
        share = scores - scores.detach()
        levels.append(log_score - share)
        log_score = (log_score + share).index_select(0, chosen)[:, None].expand(-1, ratio).flatten()
    return _by_sequence(torch.cat([*levels, log_score]), layout)


def _best(scores: Tensor, candidates: PackedLengths, counts: PackedLengths) -> Tensor:
    """Return the candidates with the highest scores, `counts` of each sequence, in any order."""
    if candidates.lengths == counts.lengths:
        return torch.arange(len(scores), device=scores.device)
    padded = candidates.pad(scores.detach())
    if candidates.padding is not None:
        padded = padded.masked_fill(candidates.padding, -torch.inf)
    best = padded.topk(counts.longest).indices
    return counts.unpad(best if len(best) == 1 else best + candidates.starts[:, None])


def _explore(scores: Tensor, candidates: CandidateSegments, share: float) -> Tensor:
    """Replace the scores of some of the sequences by random ones; empty segments stay last."""
    counts = candidates.counts.lengths_tensor
    explored = torch.rand(len(counts), device=scores.device) < share
    explored = explored.repeat_interleave(counts, output_size=len(scores))
    is_empty = candidates.key_bias == -torch.inf
    return torch.where(explored, torch.rand_like(scores).masked_fill(is_empty, -1), scores)


def _by_sequence(tokens: Tensor, layout: CompressionLayout) -> Tensor:
    """Bring tokens from level order into sequence order."""
    order = layout.sequence_order
    return tokens if order is None else tokens.index_select(0, order)


def _by_level(tokens: Tensor, layout: CompressionLayout) -> tuple[Tensor, ...]:
    """Bring tokens from sequence order into level order: VIP tokens, then one tensor per level."""
    if layout.level_order is not None:
        tokens = tokens.index_select(0, layout.level_order)
    counts = layout.vip_counts, *layout.candidate_counts
    levels: tuple[Tensor, ...] = tokens.split([sum(part.lengths) for part in counts])
    return levels
