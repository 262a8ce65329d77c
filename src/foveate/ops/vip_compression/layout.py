"""The layout of a batch for compression, which is known before the first layer runs."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import NamedTuple

import torch
from torch import Tensor

from foveate.ops._triton.cache import cached_for_graphs

Budgets = tuple[tuple[int, int], ...]
"""Pairs of a resolution and the number of its segments that are split, from coarse to fine."""


def check_budgets(budgets: Sequence[Sequence[int]]) -> Budgets:
    """Validate budgets and return them as tuples.

    Raises:
        ValueError: If there are none, if a resolution is not a multiple of the next (the last one
            of 1 token), or if a count is negative.
    """
    checked = tuple((int(resolution), int(count)) for resolution, count in budgets)
    if not checked:
        raise ValueError("budgets must have at least one pair (resolution, count)")
    resolutions = [resolution for resolution, _ in checked] + [1]
    for coarse, fine in pairwise(resolutions):
        if fine < 1 or coarse <= fine or coarse % fine:
            raise ValueError(
                "each resolution of the budgets must be greater than the next and a multiple of "
                f"the next, and the last greater than 1, got {resolutions}"
            )
    if any(count < 0 for _, count in checked):
        raise ValueError(f"counts of segments must not be negative, got {checked}")
    return checked


class PackedLengths:
    """The lengths of packed sequences, and how to pad each sequence to the longest.

    Use `packed_lengths`, which caches instances.

    Args:
        lengths: Length of each sequence, on the host.
        device: Device of the packed tensors.

    Attributes:
        lengths: Length of each sequence, on the host.
        longest: The greatest length.
        lengths_tensor: The lengths on the device, `(sequences,)`.
        starts: Packed index of the first token of each sequence, `(sequences,)`.
        padding: `(sequences, longest)` bool, true at padding; None if all lengths are equal.
    """

    def __init__(self, lengths: tuple[int, ...], device: torch.device | str | None) -> None:
        self.lengths, self.longest = lengths, max(lengths)
        counts = torch.tensor(self.lengths)
        starts = counts.cumsum(0) - counts
        self.lengths_tensor, self.starts = counts.to(device), starts.to(device)
        self.padding: Tensor | None = None
        if min(lengths) < self.longest:
            column = torch.arange(self.longest)
            real = column < counts[:, None]
            packed_index = (starts[:, None] + column).clamp(max=sum(lengths) - 1)
            self._packed_index, self.padding = packed_index.to(device), (~real).to(device)
            self._padded_index = real.flatten().nonzero()[:, 0].to(device)

    def pad(self, packed: Tensor) -> Tensor:
        """Pad `(tokens, ...)` to `(sequences, longest, ...)`; padding holds arbitrary tokens."""
        if self.padding is not None:
            return packed[self._packed_index]
        padded: Tensor = packed.unflatten(0, (len(self.lengths), self.longest))
        return padded

    def unpad(self, padded: Tensor) -> Tensor:
        """Pack `(sequences, longest, ...)` to `(tokens, ...)`."""
        flat = padded.flatten(0, 1)
        return flat if self.padding is None else flat.index_select(0, self._padded_index)


@cached_for_graphs(64)  # copying lengths synchronizes, and batches of the same lengths recur
def packed_lengths(lengths: tuple[int, ...], device: torch.device | str | None) -> PackedLengths:
    """Return the cached `PackedLengths`, which must not be modified."""
    with torch.inference_mode(False):  # tensors made in inference mode are unusable in training
        return PackedLengths(lengths, device)


@dataclass(frozen=True)
class CompressionLayout:
    """The indices of the VIP tokens and of the segments of a batch.

    The tokens other than VIP tokens are padded to whole segments of the coarsest resolution, one
    sequence after the other. The segment that a padded position belongs to is then a quotient, on
    any level.

    Attributes:
        budgets: How many segments of which resolution are split.
        vip_counts: VIP tokens of each sequence.
        candidate_counts: For each level, the segments of each sequence that are compressed tokens.
        split_counts: For each level but the last, the segments of each sequence that are split.
        vip_index: `(n_p,)`, the packed index of each VIP token.
        token_index: `(p,)`, the packed index of the token at each padded position; arbitrary at
            padding.
        padded_index: `(n,)`, the padded position of each packed token; arbitrary for a VIP token.
        padding: `(p,)` bool, the padded positions without a token; None if there are none.
        vip_positions: `(n_p,)`, positions of the VIP tokens in their sequences.
        vip_weights: `(n_p,)` float64, the weight of each VIP token in its sequence's mean score:
            1 over their number, 0 for a token that only fills a slot.
        token_counts: For each level, the number of tokens in each segment, `(segments,)`.
        segment_positions: For each level, the rounded mean position of each segment,
            `(segments,)`.
        segment_biases: For each level, the logarithm of the number of tokens that each segment
            counts as in attention, `(segments,)` float64.
        initial_positions: Positions of the VIP tokens, then of the coarsest segments.
        initial_key_bias: Their log multiplicities, float64.
        sequence_order: `(t,)`, the index in level order of each compressed token in sequence order;
            None for a single sequence.
        level_order: `(t,)`, the inverse.
    """

    budgets: Budgets
    vip_counts: PackedLengths
    candidate_counts: tuple[PackedLengths, ...]
    split_counts: tuple[PackedLengths, ...]
    vip_index: Tensor
    token_index: Tensor
    padded_index: Tensor
    padding: Tensor | None
    vip_positions: Tensor
    vip_weights: Tensor
    token_counts: tuple[Tensor, ...]
    segment_positions: tuple[Tensor, ...]
    segment_biases: tuple[Tensor, ...]
    initial_positions: Tensor
    initial_key_bias: Tensor
    sequence_order: Tensor | None
    level_order: Tensor | None

    @classmethod
    def from_mask(
        cls,
        vip_mask: Tensor | None,
        lengths: Sequence[int],
        budgets: Sequence[Sequence[int]],
        num_vip_slots: int | None = None,
        device: torch.device | str | None = None,
        vip_counts: Sequence[int] | None = None,
        is_real: Tensor | None = None,
    ) -> "CompressionLayout":
        """Lay out packed sequences; synchronizes at most to count VIP tokens.

        Args:
            vip_mask: `(n,)` bool, true at VIP tokens; if None, the first token of each sequence is
                its only VIP token.
            lengths: Length of each sequence, on the host, at least 1.
            budgets: Pairs (resolution, count). Sequences are divided into segments of the first
                resolution, of which the `count` best are split into segments of the second, and so
                on; the best segments of the last resolution are split into tokens.
            num_vip_slots: If None, VIP tokens and segments are used as they are. A number selects
                the behaviour of the published code: each sequence keeps that number of tokens, VIP
                tokens first, then its first other tokens, and its last segment has the multiplicity
                and the position of a full one.
            device: Device of the layout if `vip_mask` is None.
            vip_counts: What `count_vips` returned, if it was called before; then nothing here waits
                for the device once lengths recur, and this can be captured in a CUDA graph.
            is_real: `(n,)` bool, false at padding, which is at the end of sequences and counted in
                their lengths; None if all tokens are real. The segments are those that there would
                be without padding, and segments without tokens, which are not attended to.
                Padding may be marked as VIP tokens: it is not attended to, and scores nothing.

        Raises:
            ValueError: If the budgets are not valid, if a sequence is empty or has no VIP token, or
                if the mask does not have one element per token.
        """
        budgets, lengths = check_budgets(budgets), tuple(lengths)
        if min(lengths, default=0) < 1:
            raise ValueError(f"lengths must be at least 1, got {list(lengths)}")
        if vip_mask is not None:
            _check_mask(vip_mask, sum(lengths))
        starts = [0, *accumulate(lengths)]
        device = device if vip_mask is None else vip_mask.device
        position = torch.cat([torch.arange(length, device=device) for length in lengths])
        if vip_counts is None:
            vip_counts = count_vips(vip_mask, lengths, num_vip_slots)
        vip_lengths = tuple(vip_counts)
        vips_first = _order_vips_first(vip_mask, starts, position)
        padded = _pad_to_segments(lengths, vip_lengths, budgets[0][0], device)
        vip_index, token_index = vips_first[padded.vips], vips_first[padded.tokens]
        padded_index = torch.zeros_like(vips_first).index_copy_(0, token_index, padded.positions)
        real = torch.ones_like(token_index) if is_real is None else is_real[token_index].long()
        real = real.index_fill_(0, padded.padding, 0)
        token_positions = position[token_index].index_copy_(
            0, padded.padding, padded.padding_positions
        )
        resolutions = [*(resolution for resolution, _ in budgets), 1]
        token_counts = [*(real.view(-1, size).sum(1) for size, _ in budgets), real]
        if num_vip_slots is None:
            averaged, multiplicities = real, token_counts
        else:
            averaged = torch.ones_like(real)
            multiplicities = [
                size * (count > 0) for size, count in zip(resolutions, token_counts, strict=True)
            ]
        segment_positions = [
            _mean_position(token_positions.view(-1, size), averaged.view(-1, size))
            for size, _ in budgets
        ]
        candidates, splits = _count_segments(padded.num_segments, budgets)
        vip_tokens = packed_lengths(vip_lengths, device)
        vip_positions = position[vip_index]
        segment_biases = [multiplicity.double().log() for multiplicity in multiplicities]
        vip_biases = torch.zeros_like(vip_positions, dtype=torch.float64)
        is_vip = vip_positions == 0 if vip_mask is None else vip_mask[vip_index]
        if is_real is not None:
            is_vip &= is_real[vip_index]
            vip_biases.masked_fill_(~is_real[vip_index], -torch.inf)
        sequence_order = _interleave((vip_lengths, *candidates), device)
        return cls(
            budgets=budgets,
            vip_counts=vip_tokens,
            candidate_counts=tuple(packed_lengths(counts, device) for counts in candidates),
            split_counts=tuple(packed_lengths(counts, device) for counts in splits),
            vip_index=vip_index,
            token_index=token_index,
            padded_index=padded_index,
            padding=real == 0 if len(padded.padding) or is_real is not None else None,
            vip_positions=vip_positions,
            vip_weights=_mean_weights(is_vip, vip_tokens),
            token_counts=tuple(token_counts),
            segment_positions=(*segment_positions, token_positions),
            segment_biases=tuple(segment_biases),
            initial_positions=torch.cat([vip_positions, segment_positions[0]]),
            initial_key_bias=torch.cat([vip_biases, segment_biases[0]]),
            sequence_order=sequence_order,
            level_order=None if sequence_order is None else sequence_order.argsort(),
        )

    @property
    def lengths(self) -> tuple[int, ...]:
        """The length of each compressed sequence, VIP tokens included."""
        parts = [self.vip_counts, *self.candidate_counts]
        return tuple(map(sum, zip(*(part.lengths for part in parts), strict=True)))

    def separate(self, hidden_states: Tensor) -> tuple[Tensor, Tensor]:
        """Separate packed `(n, d)` into VIP tokens `(n_p, d)` and the others, padded, `(p, d)`."""
        tokens = hidden_states.index_select(0, self.token_index)
        if self.padding is not None:
            tokens = tokens.masked_fill_(self.padding[:, None], 0)
        return hidden_states.index_select(0, self.vip_index), tokens

    def combine(self, vips: Tensor, tokens: Tensor) -> Tensor:
        """Undo `separate`."""
        if not len(tokens):
            return torch.empty_like(vips).index_copy(0, self.vip_index, vips)
        return tokens.index_select(0, self.padded_index).index_copy_(0, self.vip_index, vips)


def _check_mask(vip_mask: Tensor, num_tokens: int) -> None:
    if vip_mask.dtype != torch.bool or vip_mask.shape != (num_tokens,):
        raise ValueError(
            f"vip_mask must be ({num_tokens},) bool, got {tuple(vip_mask.shape)} {vip_mask.dtype}"
        )


def _count_segments(
    num_segments: tuple[int, ...], budgets: Budgets
) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]]]:
    """Count the segments of each sequence at each level that are candidates, and that are split."""
    candidates, splits = [num_segments], []
    finer_resolutions = [*(resolution for resolution, _ in budgets[1:]), 1]
    for (resolution, count), finer in zip(budgets, finer_resolutions, strict=True):
        splits.append(tuple(min(count, n) for n in candidates[-1]))
        candidates.append(tuple(n * (resolution // finer) for n in splits[-1]))
    return candidates, splits


class _PaddedTokens(NamedTuple):
    """How packed sequences, VIP tokens first, are padded to whole coarsest segments.

    Attributes:
        num_segments: Coarsest segments of each sequence.
        vips: Packed indices of the VIP tokens.
        tokens: The packed index at each padded position; the sequence's last token at padding.
        positions: The padded position of that token.
        padding: Padded positions without a token.
        padding_positions: The positions in the sequence that tokens would have there.
    """

    num_segments: tuple[int, ...]
    vips: Tensor
    tokens: Tensor
    positions: Tensor
    padding: Tensor
    padding_positions: Tensor


def _pad_to_segments(
    lengths: tuple[int, ...],
    vip_lengths: tuple[int, ...],
    coarsest: int,
    device: torch.device | str | None,
) -> _PaddedTokens:
    num_segments, ranges, start, offset = [], [], 0, 0
    for length, num_vips in zip(lengths, vip_lengths, strict=True):
        num_others = length - num_vips
        num_segments.append(-(-num_others // coarsest))
        size = num_segments[-1] * coarsest
        column = torch.arange(size, device=device).clamp(max=num_others - 1)
        ranges.append(
            (
                torch.arange(start, start + num_vips, device=device),
                start + num_vips + column,
                offset + column,
                torch.arange(offset + num_others, offset + size, device=device),
                torch.arange(length, num_vips + size, device=device),
            )
        )
        start, offset = start + length, offset + size
    return _PaddedTokens(tuple(num_segments), *map(torch.cat, zip(*ranges, strict=True)))


def count_vips(
    vip_mask: Tensor | None, lengths: Sequence[int], num_vip_slots: int | None = None
) -> tuple[int, ...]:
    """Count the tokens that each sequence keeps as VIP tokens; see `CompressionLayout.from_mask`.

    Synchronizes once if there is a mask and no number of slots.

    Raises:
        ValueError: If a sequence has no VIP token, or if the number of slots is below 1.
    """
    if num_vip_slots is not None:
        if num_vip_slots < 1:
            raise ValueError(f"num_vip_slots must be at least 1, got {num_vip_slots}")
        return tuple(min(num_vip_slots, length) for length in lengths)
    if vip_mask is None:
        return (1,) * len(lengths)
    counts = tuple(torch.stack([mask.sum() for mask in vip_mask.split([*lengths])]).tolist())
    if 0 in counts:
        raise ValueError(f"sequence {counts.index(0)} has no VIP token: mark at least one")
    return counts


def _order_vips_first(vip_mask: Tensor | None, starts: list[int], position: Tensor) -> Tensor:
    """Return packed indices with the VIP tokens of each sequence before its others, stable."""
    if vip_mask is None:
        return torch.arange(len(position), device=position.device)
    return torch.cat(
        [
            start + (~vip_mask[start:end]).to(torch.uint8).argsort(stable=True)
            for start, end in pairwise(starts)
        ]
    )


def _mean_position(positions: Tensor, averaged: Tensor) -> Tensor:
    """Compute the rounded mean of the averaged positions of each segment, `(segments, tokens)`."""
    total = (positions * averaged).sum(1).double()
    return (total / averaged.sum(1).clamp(min=1)).round().long()


def _mean_weights(is_vip: Tensor, vip_counts: PackedLengths) -> Tensor:
    """Compute the weight of each token in the mean over its sequence's VIP tokens, `(n_p,)`."""
    padded = vip_counts.pad(is_vip)
    if vip_counts.padding is not None:
        padded = padded & ~vip_counts.padding
    return vip_counts.unpad(padded.double() / padded.sum(1, keepdim=True).clamp(min=1))


@cached_for_graphs(64)  # as `packed_lengths`
def _interleave(
    parts: tuple[tuple[int, ...], ...], device: torch.device | str | None
) -> Tensor | None:
    """Compute the permutation from part by part, each with all sequences, to sequence by sequence.

    Args:
        parts: For each part, the number of tokens of each sequence.
        device: Device of the result.

    Returns:
        For each token in sequence order, its index in part order; None for a single sequence.
    """
    if len(parts[0]) == 1:
        return None
    with torch.inference_mode(False):  # as above
        sizes = torch.tensor(parts)
        starts = (sizes.flatten().cumsum(0) - sizes.flatten()).view_as(sizes).T.flatten()
        sizes = sizes.T.flatten()
        ends = sizes.cumsum(0)
        shift = (starts - (ends - sizes)).repeat_interleave(sizes)
        return (torch.arange(len(shift)) + shift).to(device)
