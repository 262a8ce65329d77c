"""Window attention in plain torch: any device, linear memory, differentiable.

A sequence is attended a block of queries at a time. The keys in a block's windows are consecutive
rows, and what is added to their scores, the bias or -inf outside of the window, is the same *band*
for all blocks. A *tile* is some heads of a block with all their keys, so its softmax is whole; the
backward pass computes the same tiles again from the inputs and the log-sum-exps.
"""

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ..relative_attention.buckets import bias_by_distance
from .side import Side

TILE = 1 << 19
"""Attention scores materialized together, which should stay in cache; or one head's, if more."""


def window_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    side: Side,
    bias: Tensor | None,
    hidden: Tensor | None,
    window: tuple[int, int],
    lengths: Sequence[int],
    max_distance: int,
    scale: float,
) -> Tensor:
    """Softmax attention of `(n, heads, head_dim)` rows; zero where a query sees nothing."""
    block = min(max(lengths), max(64, min(256, (sum(window) + 1) // 4)))
    band = _band(window, block, _by_distance(bias, max_distance), q)
    rest = _Rest(_sequences(lengths, side.lengths), window[0], side.positions, hidden, scale)
    result: Tensor = _WindowAttention.apply(
        q, k, v, side.k, side.v, _by_distance(side.bias, max_distance), band, rest
    )
    return result


def _by_distance(table: Tensor | None, max_distance: int) -> Tensor | None:
    return None if table is None else bias_by_distance(table, max_distance, bidirectional=True)


def _band(window: tuple[int, int], block: int, bias: Tensor | None, q: Tensor) -> Tensor:
    """What is added to the scores of a block's queries and the keys from its first window on.

    Returns:
        `(heads or 1, block, left + block + right)`.
    """
    left, right = window
    keys = torch.arange(-left, block + right, device=q.device)
    distance = keys - torch.arange(block, device=q.device)[:, None]
    outside = (distance < -left) | (distance > right)
    bias = q.new_zeros(1, 1) if bias is None else bias
    reach = bias.shape[1] // 2
    place = distance.clamp_(-reach, reach).add_(reach)
    of_pairs = bias.to(_sums(q.dtype)).index_select(1, place.flatten())
    return of_pairs.unflatten(1, place.shape).masked_fill(outside, -torch.inf)


class _Sequence(NamedTuple):
    """Rows that windows show each other, and the side rows that they all see."""

    rows: slice
    side: slice

    def of(self, x: Tensor, of_side: Tensor) -> list[Tensor]:
        """Its keys, or values: what windows show and, if there are any, side rows; heads first."""
        parts = [x[self.rows], of_side[self.side]]
        return [_wide(part).transpose(0, 1) for part in parts if len(part)]


def _sequences(lengths: Sequence[int], side_lengths: Sequence[int]) -> list[_Sequence]:
    stops, side_stops = accumulate(lengths), accumulate(side_lengths)
    return [
        _Sequence(slice(stop - n, stop), slice(side_stop - m, side_stop))
        for n, stop, m, side_stop in zip(lengths, stops, side_lengths, side_stops, strict=True)
    ]


class _Tile(NamedTuple):
    """Some heads of a block of queries, the keys of their windows, and their part of the band."""

    queries: tuple[slice, slice]
    keys: tuple[slice, slice]
    band: tuple[slice, slice, slice]

    def of(self, parts: list[Tensor]) -> list[Tensor]:
        """Its part of a sequence's keys or values."""
        return [parts[0][self.keys], *(side[self.keys[0]] for side in parts[1:])]


class _Rest(NamedTuple):
    """What decides on the scores beyond queries, keys and biases."""

    sequences: list[_Sequence]
    left: int
    positions: Tensor | None
    hidden: Tensor | None
    scale: float


class _Scores:
    """Scores of a sequence, tile by tile."""

    def __init__(
        self,
        sequence: _Sequence,
        q: Tensor,
        k: Tensor,
        side_k: Tensor,
        side_bias: Tensor | None,
        band: Tensor,
        rest: _Rest,
    ):
        self.q = _wide(q[sequence.rows]).transpose(0, 1)
        self.keys = sequence.of(k, side_k)
        self.band, self.left, self.scale = band, rest.left, rest.scale
        self.hidden = None if rest.hidden is None else rest.hidden[sequence.rows]
        self.side_bias = None
        if side_bias is not None and rest.positions is not None and len(self.keys) > 1:
            positions = rest.positions[sequence.rows]
            self.side_bias = _SideBias(side_bias, positions, self.keys[1].shape[1])

    def tiles(self) -> Iterator[_Tile]:
        heads, n, _ = self.q.shape
        _, block, span = self.band.shape
        side_rows = sum(side.shape[1] for side in self.keys[1:])
        heads_at_once = max(1, TILE // (block * (span + side_rows)))
        for start in range(0, n, block):
            stop, shift = min(start + block, n), self.left - start
            first, last = max(0, -shift), min(n, span - shift)
            for head in range(0, heads, heads_at_once):
                some = slice(head, head + heads_at_once)
                part = slice(stop - start), slice(first + shift, last + shift)
                yield _Tile(
                    (some, slice(start, stop)),
                    (some, slice(first, last)),
                    (some if len(self.band) > 1 else slice(None), *part),
                )

    def queries(self, tile: _Tile) -> Tensor:
        """Queries times the scale."""
        return self.q[tile.queries] * self.scale

    def of(self, tile: _Tile, queries: Tensor) -> list[Tensor]:
        """Scores `(heads, block, keys)` of what windows show and, if there are any, side rows."""
        scores = [queries @ keys.mT for keys in tile.of(self.keys)]
        scores[0] += self.band[tile.band]
        if self.hidden is not None:
            scores[0].masked_fill_(self.hidden[tile.keys[1]], -torch.inf)
        if self.side_bias is not None:
            scores[1] += self.side_bias.of(tile)
        return scores


class _SideBias:
    """Bias of pairs of queries and side rows: queries at one position have one row of it."""

    def __init__(self, bias: Tensor, positions: Tensor, side_rows: int):
        last = int(positions.max())
        reach = bias.shape[1] // 2
        distance = torch.arange(-last, side_rows - int(positions.min()), device=bias.device)
        self.place = distance.clamp_(-reach, reach).add_(reach).unfold(0, side_rows, 1)
        self.bias = _wide(bias)
        self.row = last - positions.long()

    def of(self, tile: _Tile) -> Tensor:
        """Bias of a tile, `(heads, block, side_rows)`."""
        heads, queries = tile.queries
        row = self.row[queries]
        first = int(row.min())
        place = self.place[first : int(row.max()) + 1]
        of_rows = self.bias[heads].index_select(1, place.flatten()).unflatten(1, place.shape)
        return of_rows.index_select(1, row - first)

    def add_gradient(self, d_bias: Tensor, tile: _Tile, slopes: Tensor) -> None:
        """Add the slopes of a tile, `(heads, block, side_rows)`, to the gradient of the bias."""
        heads, queries = tile.queries
        row = self.row[queries]
        first = int(row.min())
        place = self.place[first : int(row.max()) + 1]
        of_rows = slopes.new_zeros(len(slopes), *place.shape).index_add_(1, row - first, slopes)
        place = place.flatten().expand(len(slopes), -1)
        d_bias[heads].scatter_add_(1, place, of_rows.flatten(1).to(d_bias.dtype))


class _WindowAttention(torch.autograd.Function):
    """With s the scores and p = exp(s - lse): o = p·v, ds = p ∘ (do·v - Σ do ∘ o)."""

    @staticmethod
    def forward(
        ctx: Any,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        side_k: Tensor,
        side_v: Tensor,
        side_bias: Tensor | None,
        band: Tensor,
        rest: _Rest,
    ) -> Tensor:
        out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
        lse = torch.empty(q.shape[:2], dtype=_sums(q.dtype), device=q.device)
        for sequence in rest.sequences:
            scores = _Scores(sequence, q, k, side_k, side_bias, band, rest)
            values = sequence.of(v, side_v)
            outs, lses = out[sequence.rows].transpose(0, 1), lse[sequence.rows].T
            for tile in scores.tiles():
                parts = scores.of(tile, scores.queries(tile))
                # Where a query sees nothing, -inf minus the least number is still -inf, and its
                # weights 0. Elsewhere the highest score adds 1 to the sum.
                top = torch.stack([s.amax(-1, keepdim=True) for s in parts]).amax(0)
                top.clamp_(min=torch.finfo(top.dtype).min)
                weights = [s.sub_(top).exp_() for s in parts]
                total = torch.stack([p.sum(-1, keepdim=True) for p in weights]).sum(0).clamp_(min=1)
                sums = [p @ x for p, x in zip(weights, tile.of(values), strict=True)]
                outs[tile.queries] = sum(sums[1:], sums[0]).div_(total).to(out.dtype)
                lses[tile.queries] = top.add_(total.log_())[..., 0]
        ctx.save_for_backward(q, k, v, side_k, side_v, side_bias, band, out, lse)
        ctx.rest = rest
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        *inputs, out, lse = ctx.saved_tensors
        q, k, v, side_k, side_v, side_bias, band = inputs
        dq, dk, dv, d_side_k, d_side_v, d_band = (
            _zeros(x) for x in (q, k, v, side_k, side_v, band)
        )
        d_side_bias = None if side_bias is None else _zeros(side_bias)
        for sequence in ctx.rest.sequences:
            scores = _Scores(sequence, q, k, side_k, side_bias, band, ctx.rest)
            values = sequence.of(v, side_v)
            d_keys, d_values = sequence.of(dk, d_side_k), sequence.of(dv, d_side_v)
            d_outs, outs = (_wide(x[sequence.rows]).transpose(0, 1) for x in (grad, out))
            d_queries, lses = dq[sequence.rows].transpose(0, 1), lse[sequence.rows].T[..., None]
            for tile in scores.tiles():
                queries, d_out = scores.queries(tile), d_outs[tile.queries]
                delta = (d_out * outs[tile.queries]).sum(-1, keepdim=True)
                weights = [s.sub_(lses[tile.queries]).exp_() for s in scores.of(tile, queries)]
                parts = (tile.of(x) for x in (scores.keys, values, d_keys, d_values))
                slopes = []
                for p, key, value, d_key, d_value in zip(weights, *parts, strict=True):
                    slope = (d_out @ value.mT).sub_(delta).mul_(p)
                    d_value += p.mT @ d_out
                    d_key += slope.mT @ queries
                    d_queries[tile.queries] += slope @ key
                    slopes.append(slope)
                if ctx.needs_input_grad[6]:
                    d_band[tile.band] += slopes[0]
                if scores.side_bias is not None and d_side_bias is not None:
                    scores.side_bias.add_gradient(d_side_bias, tile, slopes[1])
        gradients = dq.mul_(ctx.rest.scale), dk, dv, d_side_k, d_side_v, d_side_bias, d_band
        return (
            *(None if d is None else d.to(x.dtype) for d, x in zip(gradients, inputs, strict=True)),
            None,
        )


def _zeros(x: Tensor) -> Tensor:
    """Where the gradient of x is summed."""
    return torch.zeros(x.shape, dtype=_sums(x.dtype), device=x.device)


def _wide(x: Tensor) -> Tensor:
    """Rows in the precision of sums."""
    return x.to(_sums(x.dtype))


def _sums(dtype: torch.dtype) -> torch.dtype:
    """Precision of everything between reading and writing rows of a dtype."""
    return torch.promote_types(dtype, torch.float32)
