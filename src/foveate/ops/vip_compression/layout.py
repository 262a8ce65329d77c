"""Where VIP tokens and segments of a batch stand: all that is known before the first layer runs."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import NamedTuple

import torch
from torch import Tensor

from .ragged import Ragged, ragged

Budgets = tuple[tuple[int, int], ...]
"""Pairs of a resolution and how many of its segments are split, from coarse to fine."""


def check_budgets(budgets: Sequence[Sequence[int]]) -> Budgets:
    """Make budgets a tuple.

    Raises:
        ValueError: none, a resolution that is no multiple of the next (and the last of 1 token),
            or a negative count.
    """
    checked = tuple((int(resolution), int(count)) for resolution, count in budgets)
    if not checked:
        raise ValueError("budgets must have at least one pair (resolution, count)")
    resolutions = [resolution for resolution, _ in checked] + [1]
    for coarse, fine in pairwise(resolutions):
        if fine < 1 or coarse <= fine or coarse % fine:
            raise ValueError(
                "each resolution of the budgets must be a multiple of the next, and greater, down "
                f"to 1 token, got {resolutions}"
            )
    if any(count < 0 for _, count in checked):
        raise ValueError(f"counts of segments must not be negative, got {checked}")
    return checked


@dataclass(frozen=True)
class Layout:
    """Where VIP tokens and segments of a batch stand.

    The others are laid out in whole segments of the coarsest resolution, so that the segment of any
    level that a place belongs to is a quotient. In the last segments of a sequence tokens may lack.

    Attributes:
        budgets: what is split.
        vip_counts: VIP tokens of each sequence.
        candidates: for each level, the segments of each sequence that are rows of its compression.
        splits: for each level but the last, the segments of each sequence that are split.
        vips: `(n_p,)`, packed rows of the VIP tokens.
        tokens: `(places,)`, the packed row at each place; any where a token lacks.
        place: `(rows,)`, the place of each packed row; any for a VIP token.
        absent: `(absent,)`, the places where tokens lack; None where none do.
        vip_positions: `(n_p,)`, positions of the VIP tokens in their sequences.
        shares: `(n_p,)` float32, what each VIP token adds to its sequence's mean score: 1 over
            their number, 0 at a row that only fills a slot.
        counts: for each level, tokens of each segment, `(segments,)`.
        positions: for each level, rounded mean positions of the segments, `(segments,)`.
        multiplicities: for each level, how many tokens attention takes a segment for,
            `(segments,)`.
        key_biases: for each level, their logarithms, float64.
        first_positions: positions of VIP tokens and, behind them, of the coarsest segments.
        first_key_bias: likewise, log multiplicities, float64.
        order: `(r,)`, where the rows of each sequence, one sequence after the other, stand among
            rows that are ordered by level; None for a single sequence.
        back: `(r,)`, the inverse.
    """

    budgets: Budgets
    vip_counts: Ragged
    candidates: tuple[Ragged, ...]
    splits: tuple[Ragged, ...]
    vips: Tensor
    tokens: Tensor
    place: Tensor
    absent: Tensor | None
    vip_positions: Tensor
    shares: Tensor
    counts: tuple[Tensor, ...]
    positions: tuple[Tensor, ...]
    multiplicities: tuple[Tensor, ...]
    key_biases: tuple[Tensor, ...]
    first_positions: Tensor
    first_key_bias: Tensor
    order: Tensor | None
    back: Tensor | None

    @classmethod
    def of(
        cls,
        vip: Tensor | None,
        lengths: Sequence[int],
        budgets: Sequence[Sequence[int]],
        num_vip_slots: int | None = None,
        device: torch.device | str | None = None,
    ) -> "Layout":
        """Lay out packed sequences. The device is waited for once, without slots, and then never.

        Args:
            vip: `(rows,)` bool, the VIP tokens; if None, the first of each sequence is one.
            lengths: rows of each sequence, host integers, at least 1.
            budgets: (resolution, count) pairs: sequences are cut into segments of the first
                resolution, of which the count best are split into segments of the second, and so
                on; those of the last are split into tokens.
            num_vip_slots: None takes VIP tokens and segments as they are. A number is the published
                way: so many rows of a sequence are kept, VIP tokens first, then those that follow;
                and a last segment that lacks tokens has the multiplicity and the position of one
                that does not.
            device: where `vip` is None.

        Raises:
            ValueError: budgets that do not divide, a sequence without VIP token, or numbers of rows
                that differ.
        """
        budgets, lengths = check_budgets(budgets), tuple(lengths)
        if min(lengths, default=0) < 1:
            raise ValueError(f"lengths must be at least 1, got {list(lengths)}")
        if vip is not None and (vip.dtype != torch.bool or vip.shape != (sum(lengths),)):
            raise ValueError(
                f"vip must be ({sum(lengths)},) bool, got {tuple(vip.shape)} {vip.dtype}"
            )
        starts = [0, *accumulate(lengths)]
        device = device if vip is None else vip.device
        position = torch.cat([torch.arange(length, device=device) for length in lengths])
        vip_lengths = _vip_lengths(vip, lengths, num_vip_slots)
        order = _vips_first(vip, starts, position)
        at = _at(lengths, vip_lengths, budgets[0][0], device)
        vips, tokens = order[at.vips], order[at.tokens]
        place = torch.zeros_like(order).index_copy_(0, tokens, at.places)
        present = torch.ones_like(tokens).index_fill_(0, at.absent, 0)
        at_places = position[tokens].index_copy_(0, at.absent, at.beyond)
        resolutions = [*(resolution for resolution, _ in budgets), 1]
        counts = [*(present.view(-1, size).sum(1) for size, _ in budgets), present]
        if num_vip_slots is None:
            taken, multiplicities = present, counts
        else:
            taken = torch.ones_like(present)
            multiplicities = [
                size * (count > 0) for size, count in zip(resolutions, counts, strict=True)
            ]
        means = (_mean(at_places.view(-1, size), taken.view(-1, size)) for size, _ in budgets)
        positions = [*means, at_places]
        candidates, splits = [at.segments], []
        for (resolution, count), finer in zip(budgets, resolutions[1:], strict=True):
            splits.append(tuple(min(count, n) for n in candidates[-1]))
            candidates.append(tuple(n * (resolution // finer) for n in splits[-1]))
        vip_counts = ragged(vip_lengths, device)
        vip_positions = position[vips]
        key_biases = [some.double().log() for some in multiplicities]
        of_vips = torch.zeros_like(vip_positions, dtype=torch.float64)
        order_of_rows = _interleave([vip_lengths, *candidates], device)
        return cls(
            budgets=budgets,
            vip_counts=vip_counts,
            candidates=tuple(ragged(some, device) for some in candidates),
            splits=tuple(ragged(some, device) for some in splits),
            vips=vips,
            tokens=tokens,
            place=place,
            absent=at.absent if len(at.absent) else None,
            vip_positions=vip_positions,
            shares=_shares(vip_positions == 0 if vip is None else vip[vips], vip_counts),
            counts=tuple(counts),
            positions=tuple(positions),
            multiplicities=tuple(multiplicities),
            key_biases=tuple(key_biases),
            first_positions=torch.cat([vip_positions, positions[0]]),
            first_key_bias=torch.cat([of_vips, key_biases[0]]),
            order=order_of_rows,
            back=None if order_of_rows is None else order_of_rows.argsort(),
        )

    @property
    def lengths(self) -> tuple[int, ...]:
        """Rows of each compressed sequence, VIP tokens first."""
        parts = [self.vip_counts, *self.candidates]
        return tuple(map(sum, zip(*(part.lengths for part in parts), strict=True)))

    def split(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Part packed rows `(rows, d)`: VIP tokens `(n_p, d)`, and the others at their places."""
        tokens = rows.index_select(0, self.tokens)
        if self.absent is not None:
            tokens = tokens.index_fill_(0, self.absent, 0)
        return rows.index_select(0, self.vips), tokens

    def join(self, vips: Tensor, tokens: Tensor) -> Tensor:
        """Undo `split`."""
        if not len(tokens):
            return torch.empty_like(vips).index_copy(0, self.vips, vips)
        return tokens.index_select(0, self.place).index_copy_(0, self.vips, vips)


class _At(NamedTuple):
    """Rows of sequences that have their VIP tokens first, and what becomes of them.

    Attributes:
        segments: coarsest segments of each sequence.
        vips: rows of the VIP tokens.
        tokens: the row at each place; the last of the sequence where a token lacks.
        places: the place of that row.
        absent: places where tokens lack.
        beyond: the positions that tokens would have there.
    """

    segments: tuple[int, ...]
    vips: Tensor
    tokens: Tensor
    places: Tensor
    absent: Tensor
    beyond: Tensor


def _at(
    lengths: tuple[int, ...],
    vip_lengths: tuple[int, ...],
    coarsest: int,
    device: torch.device | str | None,
) -> _At:
    segments, ranges, start, offset = [], [], 0, 0
    for length, count in zip(lengths, vip_lengths, strict=True):
        others = length - count
        segments.append(-(-others // coarsest))
        size = segments[-1] * coarsest
        column = torch.arange(size, device=device).clamp(max=others - 1)
        ranges.append(
            (
                torch.arange(start, start + count, device=device),
                start + count + column,
                offset + column,
                torch.arange(offset + others, offset + size, device=device),
                torch.arange(length, count + size, device=device),
            )
        )
        start, offset = start + length, offset + size
    return _At(tuple(segments), *map(torch.cat, zip(*ranges, strict=True)))


def _vip_lengths(
    vip: Tensor | None, lengths: tuple[int, ...], num_vip_slots: int | None
) -> tuple[int, ...]:
    """How many rows of each sequence are VIP tokens."""
    if num_vip_slots is not None:
        if num_vip_slots < 1:
            raise ValueError(f"num_vip_slots must be at least 1, got {num_vip_slots}")
        return tuple(min(num_vip_slots, length) for length in lengths)
    if vip is None:
        return (1,) * len(lengths)
    counts = tuple(torch.stack([some.sum() for some in vip.split(lengths)]).tolist())
    if 0 in counts:
        raise ValueError(f"sequence {counts.index(0)} has no VIP token: mark at least one")
    return counts


def _vips_first(vip: Tensor | None, starts: list[int], position: Tensor) -> Tensor:
    """Packed rows, the VIP tokens of each sequence before its others, else in order."""
    if vip is None:
        return torch.arange(len(position), device=position.device)
    sorted_rows = [
        start + (~vip[start:end]).to(torch.uint8).argsort(stable=True)
        for start, end in pairwise(starts)
    ]
    return torch.cat(sorted_rows)


def _mean(positions: Tensor, taken: Tensor) -> Tensor:
    """Rounded mean of the positions taken in each segment, both `(segments, tokens)`."""
    total = (positions * taken).sum(1).double()
    return (total / taken.sum(1).clamp(min=1)).round().long()


def _shares(asks: Tensor, counts: Ragged) -> Tensor:
    """What each row adds to the mean over those rows of its sequence that ask `(n_p,)`."""
    padded = counts.pad(asks)
    if counts.absent is not None:
        padded = padded & ~counts.absent
    return counts.unpad(padded / padded.sum(1, keepdim=True).clamp(min=1))


def _interleave(
    parts: Sequence[tuple[int, ...]], device: torch.device | str | None
) -> Tensor | None:
    """Where the rows of each sequence stand, if part by part all sequences follow one another."""
    if len(parts[0]) == 1:
        return None
    sizes = torch.tensor(parts)
    starts = (sizes.flatten().cumsum(0) - sizes.flatten()).view_as(sizes).T.flatten()
    sizes = sizes.T.flatten()
    ends = sizes.cumsum(0)
    shift = (starts - (ends - sizes)).repeat_interleave(sizes)
    return (torch.arange(len(shift)) + shift).to(device)
