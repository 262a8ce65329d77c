"""Window attention in plain PyTorch: any device, linear memory, differentiable.

A sequence is attended one block of queries at a time. The keys in a block's windows are consecutive
tokens, and what is added to their scores, the bias or -inf outside the window, is the same *band*
for all blocks. A *tile* is some heads of a block with all their keys, so its softmax is complete;
the backward pass recomputes the same tiles from the inputs and the log-sum-exps.
"""

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from foveate.ops._packed.buckets import bias_by_distance
from foveate.ops._packed.grouped_attention import accumulation_dtype, zero_gradient

from .global_attention import GlobalKeysValues

TILE = 1 << 19
"""The number of scores to materialize at once, which should fit in cache; at least one head's."""


def window_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    global_keys_values: GlobalKeysValues,
    bias: Tensor | None,
    masked_keys: Tensor | None,
    window: tuple[int, int],
    lengths: Sequence[int],
    max_distance: int,
    scale: float,
) -> Tensor:
    """Softmax attention of `(tokens, heads, head_dim)`; zero where a query sees no key."""
    kv = global_keys_values
    block = min(max(lengths), max(64, min(256, (sum(window) + 1) // 4)))
    band = _band(window, block, _by_distance(bias, max_distance), q)
    pattern = _Pattern(_slices(lengths, kv.lengths), window[0], kv.positions, masked_keys, scale)
    out: Tensor = _WindowAttention.apply(
        q, k, v, kv.k, kv.v, _by_distance(kv.bias, max_distance), band, pattern
    )
    return out


def _by_distance(table: Tensor | None, max_distance: int) -> Tensor | None:
    return None if table is None else bias_by_distance(table, max_distance, bidirectional=True)


def _band(window: tuple[int, int], block: int, bias: Tensor | None, q: Tensor) -> Tensor:
    """Compute the term to add to the scores of a block's queries and the keys in their windows.

    Returns:
        `(heads or 1, block, left + block + right)`.
    """
    left, right = window
    keys = torch.arange(-left, block + right, device=q.device)
    distance = keys - torch.arange(block, device=q.device)[:, None]
    outside = (distance < -left) | (distance > right)
    bias = q.new_zeros(1, 1) if bias is None else bias
    reach = bias.shape[1] // 2
    index = distance.clamp_(-reach, reach).add_(reach)
    band: Tensor = bias.to(accumulation_dtype(q.dtype)).index_select(1, index.flatten())
    band = band.unflatten(1, index.shape)
    return band.masked_fill(outside, -torch.inf)


class _Slices(NamedTuple):
    """The slices of a sequence in the packed tokens and in the packed global tokens."""

    tokens: slice
    global_tokens: slice

    def select(self, x: Tensor, global_x: Tensor) -> list[Tensor]:
        """Select a sequence's keys or values and, if any, its global ones; heads first."""
        parts = [x[self.tokens], global_x[self.global_tokens]]
        return [_widened(part).transpose(0, 1) for part in parts if len(part)]


def _slices(lengths: Sequence[int], global_lengths: Sequence[int]) -> list[_Slices]:
    stops, global_stops = accumulate(lengths), accumulate(global_lengths)
    return [
        _Slices(slice(stop - n, stop), slice(global_stop - m, global_stop))
        for n, stop, m, global_stop in zip(
            lengths, stops, global_lengths, global_stops, strict=True
        )
    ]


class _Tile(NamedTuple):
    """Some heads of a block of queries, the keys of their windows, and their part of the band."""

    queries: tuple[slice, slice]
    keys: tuple[slice, slice]
    band: tuple[slice, slice, slice]

    def select(self, parts: list[Tensor]) -> list[Tensor]:
        """Select the tile's part of a sequence's keys or values."""
        heads = self.keys[0]
        return [parts[0][self.keys], *(global_part[heads] for global_part in parts[1:])]


class _Pattern(NamedTuple):
    """The inputs of the scores other than queries, keys and biases."""

    sequences: list[_Slices]
    left: int
    positions: Tensor | None
    masked_keys: Tensor | None
    scale: float


class _SequenceScores:
    """Scores of a sequence, tile by tile."""

    def __init__(
        self,
        sequence: _Slices,
        q: Tensor,
        k: Tensor,
        global_k: Tensor,
        global_bias: Tensor | None,
        band: Tensor,
        pattern: _Pattern,
    ):
        self.q = _widened(q[sequence.tokens]).transpose(0, 1)
        self.keys = sequence.select(k, global_k)
        self.band, self.left, self.scale = band, pattern.left, pattern.scale
        masked_keys = pattern.masked_keys
        self.masked_keys = None if masked_keys is None else masked_keys[sequence.tokens]
        self.global_bias = None
        if global_bias is not None and pattern.positions is not None and len(self.keys) > 1:
            positions = pattern.positions[sequence.tokens]
            self.global_bias = _GlobalBias(global_bias, positions, self.keys[1].shape[1])

    def tiles(self) -> Iterator[_Tile]:
        """Yield the tiles of the sequence."""
        num_heads, n, _ = self.q.shape
        _, block, span = self.band.shape
        num_global = sum(keys.shape[1] for keys in self.keys[1:])
        heads_per_tile = max(1, TILE // (block * (span + num_global)))
        for start in range(0, n, block):
            stop, shift = min(start + block, n), self.left - start
            first, last = max(0, -shift), min(n, span - shift)
            for head in range(0, num_heads, heads_per_tile):
                heads = slice(head, head + heads_per_tile)
                band_heads = heads if len(self.band) > 1 else slice(None)
                yield _Tile(
                    (heads, slice(start, stop)),
                    (heads, slice(first, last)),
                    (band_heads, slice(stop - start), slice(first + shift, last + shift)),
                )

    def queries(self, tile: _Tile) -> Tensor:
        """Return the queries of a tile, times the scale."""
        return self.q[tile.queries] * self.scale

    def compute(self, tile: _Tile, queries: Tensor) -> list[Tensor]:
        """Compute scores `(heads, block, keys)` in the windows and, if any, of global keys."""
        scores = [queries @ keys.mT for keys in tile.select(self.keys)]
        scores[0] += self.band[tile.band]
        if self.masked_keys is not None:
            scores[0].masked_fill_(self.masked_keys[tile.keys[1]], -torch.inf)
        if self.global_bias is not None:
            scores[1] += self.global_bias.pair_biases(tile)
        return scores


class _GlobalBias:
    """Bias of pairs of queries and global keys, computed once for all queries at a position."""

    def __init__(self, bias: Tensor, positions: Tensor, num_global: int):
        last = int(positions.max())
        reach = bias.shape[1] // 2
        distance = torch.arange(-last, num_global - int(positions.min()), device=bias.device)
        self.index = distance.clamp_(-reach, reach).add_(reach).unfold(0, num_global, 1)
        self.bias = _widened(bias)
        self.row = last - positions.long()

    def pair_biases(self, tile: _Tile) -> Tensor:
        """Look up the bias of a tile, `(heads, block, global_tokens)`."""
        heads, queries = tile.queries
        row = self.row[queries]
        first = int(row.min())
        index = self.index[first : int(row.max()) + 1]
        biases: Tensor = self.bias[heads].index_select(1, index.flatten())
        biases = biases.unflatten(1, index.shape)
        return biases.index_select(1, row - first)

    def add_gradient(self, d_bias: Tensor, tile: _Tile, d_scores: Tensor) -> None:
        """Add the gradient of a tile's scores to the gradient of the bias."""
        heads, queries = tile.queries
        row = self.row[queries]
        first = int(row.min())
        index = self.index[first : int(row.max()) + 1]
        d_rows = d_scores.new_zeros(len(d_scores), *index.shape)
        d_rows.index_add_(1, row - first, d_scores)
        index = index.flatten().expand(len(d_scores), -1)
        d_bias[heads].scatter_add_(1, index, d_rows.flatten(1).to(d_bias.dtype))


class _WindowAttention(torch.autograd.Function):
    """With s the scores and p = exp(s - lse): o = p·v, ds = p ∘ (do·v - Σ do ∘ o)."""

    @staticmethod
    def forward(
        ctx: Any,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        global_k: Tensor,
        global_v: Tensor,
        global_bias: Tensor | None,
        band: Tensor,
        pattern: _Pattern,
    ) -> Tensor:
        out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
        lse = torch.empty(q.shape[:2], dtype=accumulation_dtype(q.dtype), device=q.device)
        for sequence in pattern.sequences:
            scores = _SequenceScores(sequence, q, k, global_k, global_bias, band, pattern)
            values = sequence.select(v, global_v)
            outs, lses = out[sequence.tokens].transpose(0, 1), lse[sequence.tokens].T
            for tile in scores.tiles():
                parts = scores.compute(tile, scores.queries(tile))
                # If a query sees no key, -inf minus the least number is still -inf, and its weights
                # are 0. Otherwise the highest score adds 1 to the sum.
                top = torch.stack([s.amax(-1, keepdim=True) for s in parts]).amax(0)
                top.clamp_(min=torch.finfo(top.dtype).min)
                weights = [s.sub_(top).exp_() for s in parts]
                total = torch.stack([p.sum(-1, keepdim=True) for p in weights]).sum(0).clamp_(min=1)
                sums = [p @ x for p, x in zip(weights, tile.select(values), strict=True)]
                outs[tile.queries] = sum(sums[1:], sums[0]).div_(total).to(out.dtype)
                lses[tile.queries] = top.add_(total.log_())[..., 0]
        ctx.save_for_backward(q, k, v, global_k, global_v, global_bias, band, out, lse)
        ctx.pattern = pattern
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        *inputs, out, lse = ctx.saved_tensors
        q, k, v, global_k, global_v, global_bias, band = inputs
        dq, dk, dv, d_global_k, d_global_v, d_band = (
            zero_gradient(x) for x in (q, k, v, global_k, global_v, band)
        )
        d_global_bias = None if global_bias is None else zero_gradient(global_bias)
        for sequence in ctx.pattern.sequences:
            scores = _SequenceScores(sequence, q, k, global_k, global_bias, band, ctx.pattern)
            values = sequence.select(v, global_v)
            d_keys, d_values = sequence.select(dk, d_global_k), sequence.select(dv, d_global_v)
            d_outs, outs = (_widened(x[sequence.tokens]).transpose(0, 1) for x in (grad, out))
            d_queries, lses = dq[sequence.tokens].transpose(0, 1), lse[sequence.tokens].T[..., None]
            for tile in scores.tiles():
                queries, d_out = scores.queries(tile), d_outs[tile.queries]
                delta = (d_out * outs[tile.queries]).sum(-1, keepdim=True)
                weights = [s.sub_(lses[tile.queries]).exp_() for s in scores.compute(tile, queries)]
                parts = (tile.select(x) for x in (scores.keys, values, d_keys, d_values))
                d_scores = []
                for p, key, value, d_key, d_value in zip(weights, *parts, strict=True):
                    ds = (d_out @ value.mT).sub_(delta).mul_(p)
                    d_value += p.mT @ d_out
                    d_key += ds.mT @ queries
                    d_queries[tile.queries] += ds @ key
                    d_scores.append(ds)
                if ctx.needs_input_grad[6]:
                    d_band[tile.band] += d_scores[0]
                if scores.global_bias is not None and d_global_bias is not None:
                    scores.global_bias.add_gradient(d_global_bias, tile, d_scores[1])
        dq.mul_(ctx.pattern.scale)
        gradients = dq, dk, dv, d_global_k, d_global_v, d_global_bias, d_band
        return (
            *(None if d is None else d.to(x.dtype) for d, x in zip(gradients, inputs, strict=True)),
            None,
        )


def _widened(x: Tensor) -> Tensor:
    """Convert x to the dtype in which sums are accumulated."""
    return x.to(accumulation_dtype(x.dtype))
