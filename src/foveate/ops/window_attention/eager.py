"""Window attention in plain PyTorch: any device, linear memory, differentiable.

The queries of all sequences are laid out in *blocks*, each of one sequence. The keys in a block's
windows, its *span*, are consecutive rows, and what is added to their scores, the bias or -inf
outside the window, is the same *band* for all blocks. Spans that reach beyond their sequence or
hold masked keys are *cut*.

Queries attend to their span and to the global keys separately, and the two results are merged by
their log-sum-exps. On a CPU each is one fused kernel over many blocks: with several threads, the
time of a small operation is mostly that of waiting for each other. The backward pass recomputes the
scores, as many at a time as fit in cache.
"""

from collections.abc import Iterator, Sequence
from itertools import accumulate, groupby
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from foveate.ops._packed.buckets import bias_by_distance
from foveate.ops._packed.grouped_attention import accumulation_dtype, zero_gradient

from .global_attention import GlobalKeysValues

TILE = 1 << 20
"""The number of scores to materialize at once, which should fit in cache; at least a block's."""

MASK_TILE = 1 << 23
"""The number of scores of a fused kernel, which bounds the memory of its mask."""


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
    size = min(max(lengths), max(64, min(256, (sum(window) + 1) // 4)))
    dtype = accumulation_dtype(q.dtype)
    band = _band(window, size, _by_distance(bias, max_distance, dtype), q)
    blocks = _Blocks(lengths, size, window, masked_keys, q.device)
    pattern = _Pattern(blocks, _global_slices(lengths, kv.lengths), kv.positions, scale)
    out: Tensor = _WindowAttention.apply(
        q, k, v, kv.k, kv.v, _by_distance(kv.bias, max_distance, dtype), band, pattern
    )
    return out


def _by_distance(table: Tensor | None, max_distance: int, dtype: torch.dtype) -> Tensor | None:
    if table is None:
        return None
    return bias_by_distance(table, max_distance, bidirectional=True).to(dtype)


def _band(window: tuple[int, int], block: int, bias: Tensor | None, q: Tensor) -> Tensor:
    """Compute the term to add to the scores of a block's queries and the keys in their windows.

    Returns:
        `(heads or 1, block, left + block + right)`.
    """
    left, right = window
    keys = torch.arange(-left, block + right, device=q.device)
    distance = keys - torch.arange(block, device=q.device)[:, None]
    outside = (distance < -left) | (distance > right)
    bias = q.new_zeros(1, 1, dtype=accumulation_dtype(q.dtype)) if bias is None else bias
    reach = bias.shape[1] // 2
    index = distance.clamp_(-reach, reach).add_(reach)
    band: Tensor = bias.index_select(1, index.flatten())
    band = band.unflatten(1, index.shape)
    return band.masked_fill(outside, -torch.inf)


class _Blocks:
    """The layout of packed sequences in blocks, and the tiles in which to attend.

    Attributes:
        size: Rows of a block.
        number: The number of blocks.
        hidden: The keys of each block's span that are of no or another sequence or masked,
            `(number, span)` bool.
        is_cut: For each block whether it has hidden keys.
    """

    def __init__(
        self,
        lengths: Sequence[int],
        size: int,
        window: tuple[int, int],
        masked_keys: Tensor | None,
        device: torch.device,
    ):
        (self.left, right), self.size = window, size
        counts = [-(-n // size) for n in lengths]
        self.number = sum(counts)
        self.span = self.left + size + right
        firsts = accumulate(counts, initial=0)
        self.slices = [
            (slice(stop - n, stop), slice(first * size, first * size + n))
            for n, stop, first in zip(lengths, accumulate(lengths), firsts, strict=False)
        ]
        owner = torch.full((self.left + self.number * size + right,), -1, device=device)
        sequences = torch.arange(len(lengths), device=device)
        sequence = sequences.repeat_interleave(torch.tensor(counts, device=device))
        inner = owner[self.left : self.left + self.number * size]
        for number, (tokens, rows) in enumerate(self.slices):
            inner[rows] = number
            if masked_keys is not None:
                inner[rows].masked_fill_(masked_keys[tokens], -1)
        self.hidden = owner.unfold(0, self.span, size) != sequence[:, None]
        self.is_cut: list[bool] = self.hidden.any(1).tolist()
        self.has_masked_keys = masked_keys is not None

    def queries(self, x: Tensor) -> Tensor:
        """Lay out `(tokens, heads, head_dim)` as `(number, heads, size, head_dim)`."""
        if len(x) != self.number * self.size:
            x = self._rows(x, 0, self.number * self.size)
        return x.unflatten(0, (-1, self.size)).transpose(1, 2)

    def tokens(self, blocks: Tensor) -> Tensor:
        """Undo `queries`."""
        return self._tokens(blocks.transpose(1, 2).flatten(0, 1))

    def _tokens(self, rows: Tensor) -> Tensor:
        if len(self.slices) == 1:
            return rows[self.slices[0][1]]
        return torch.cat([rows[row_slice] for _, row_slice in self.slices])

    def spans(self, k: Tensor, v: Tensor) -> Tensor:
        """View a copy of keys and values `(tokens, heads, head_dim)`, by the blocks that see them.

        Returns:
            `(2, number, heads, span, head_dim)`.
        """
        rows = self._rows(
            torch.stack([k, v], 1), self.left, self.number * self.size - self.size + self.span
        )
        return rows.unfold(0, self.span, self.size).permute(1, 0, 2, 4, 3)

    def _rows(self, x: Tensor, margin: int, number: int) -> Tensor:
        padded = x.new_zeros(number, *x.shape[1:])
        for tokens, rows in self.slices:
            padded[margin + rows.start : margin + rows.stop] = x[tokens]
        return padded

    def add_to_rows(self, rows: Tensor, tile: "_Tile", spans: Tensor) -> None:
        """Add a tile's part of the gradient of `spans`, which overlap, to that of their rows.

        Args:
            rows: `(rows, 2, heads, head_dim)`, see `span_rows`.
            tile: The tile.
            spans: `(2, blocks, heads, span, head_dim)`.
        """
        count = spans.shape[1]
        for offset in range(0, self.span, self.size):
            first = tile.blocks.start * self.size + offset
            chunk = rows[first : first + count * self.size].unflatten(0, (count, self.size))
            part = spans[:, :, :, offset : offset + self.size].permute(1, 3, 0, 2, 4)
            chunk[:, : part.shape[1], :, tile.heads] += part

    def span_rows(self) -> int:
        """Return the number of rows in which whole blocks at every offset of a span fit."""
        return self.size * (self.number - 1 - (-self.span // self.size))

    def from_rows(self, rows: Tensor) -> tuple[Tensor, ...]:
        """Undo `spans`, given the sums over what overlaps, `(rows, 2, heads, head_dim)`."""
        inner = rows[self.left : self.left + self.number * self.size]
        return self._tokens(inner).unbind(1)

    def tiles(
        self, band: Tensor, num_heads: int, max_scores: int, *, apart: bool
    ) -> Iterator["_Tile"]:
        """Yield tiles, with those blocks that are cut and those that are not apart or together."""
        scores = self.size * self.span
        heads_per_tile = min(num_heads, max(1, max_scores // scores))
        blocks_per_tile = max(1, max_scores // (scores * heads_per_tile))
        first = 0
        for _, run in groupby(self.is_cut if apart else [True] * self.number):
            stop = first + len(list(run))
            for start in range(first, stop, blocks_per_tile):
                blocks = slice(start, min(start + blocks_per_tile, stop))
                hidden = self.hidden[blocks, None, None] if any(self.is_cut[blocks]) else None
                for head in range(0, num_heads, heads_per_tile):
                    heads = slice(head, head + heads_per_tile)
                    band_heads = heads if len(band) > 1 else slice(None)
                    yield _Tile(blocks, heads, band_heads, hidden)
            first = stop


class _Tile(NamedTuple):
    """Some heads of some blocks.

    Attributes:
        blocks: The blocks.
        heads: The heads.
        band_heads: The heads of the band, which has one for all if there is no bias.
        hidden: Hidden keys `(blocks, 1, 1, span)`, None if there are none.
    """

    blocks: slice
    heads: slice
    band_heads: slice
    hidden: Tensor | None


def _global_slices(
    lengths: Sequence[int], global_lengths: Sequence[int]
) -> list[tuple[slice, slice]]:
    """Return the tokens and the global tokens of each sequence that has global tokens."""
    stops, global_stops = accumulate(lengths), accumulate(global_lengths)
    return [
        (slice(stop - n, stop), slice(global_stop - m, global_stop))
        for n, stop, m, global_stop in zip(
            lengths, stops, global_lengths, global_stops, strict=True
        )
        if m
    ]


class _Pattern(NamedTuple):
    """The inputs of the scores other than queries, keys and biases."""

    blocks: _Blocks
    global_slices: list[tuple[slice, slice]]
    positions: Tensor | None
    scale: float

    def global_tiles(
        self, bias: Tensor | None, num_heads: int, max_scores: int
    ) -> Iterator[tuple[slice, slice, "_GlobalBias | None", slice]]:
        """Yield queries, their global keys, their bias, and which of its queries they are."""
        for tokens, keys in self.global_slices:
            num_keys = keys.stop - keys.start
            pair_bias = None
            if bias is not None and self.positions is not None:
                pair_bias = _GlobalBias(bias, self.positions[tokens], num_keys)
            queries_per_tile = max(1, max_scores // (num_heads * num_keys))
            for start in range(tokens.start, tokens.stop, queries_per_tile):
                queries = slice(start, min(start + queries_per_tile, tokens.stop))
                local = slice(start - tokens.start, queries.stop - tokens.start)
                yield queries, keys, pair_bias, local


class _GlobalBias:
    """Bias of pairs of queries and global keys, computed once for all queries at a position."""

    def __init__(self, bias: Tensor, positions: Tensor, num_global: int):
        last = int(positions.max())
        reach = bias.shape[1] // 2
        distance = torch.arange(-last, num_global - int(positions.min()), device=bias.device)
        self.index = distance.clamp_(-reach, reach).add_(reach)
        self.num_global = num_global
        self.bias = bias.index_select(1, self.index)
        self.row = last - positions.long()

    def pair_biases(self, queries: slice) -> Tensor:
        """Look up the bias of queries, `(heads, queries, global_tokens)`."""
        return self.bias.unfold(1, self.num_global, 1).index_select(1, self.row[queries])

    def add_gradient(self, d_bias: Tensor, queries: slice, d_scores: Tensor) -> None:
        """Add the gradient of the scores of queries to the gradient of the bias."""
        row = self.row[queries]
        first = int(row.min())
        index = self.index.unfold(0, self.num_global, 1)[first : int(row.max()) + 1]
        d_rows = d_scores.new_zeros(len(d_scores), *index.shape)
        d_rows.index_add_(1, row - first, d_scores)
        index = index.flatten().expand(len(d_scores), -1)
        d_bias.scatter_add_(1, index, d_rows.flatten(1).to(d_bias.dtype))


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
        blocks, scale, num_heads = pattern.blocks, pattern.scale, q.shape[1]
        max_scores = MASK_TILE if q.device.type == "cpu" else TILE
        queries, (keys, values) = blocks.queries(q), blocks.spans(k, v)
        outs = torch.empty_like(queries)
        lses = queries.new_empty(queries.shape[:3], dtype=band.dtype)
        for tile in blocks.tiles(band, num_heads, max_scores, apart=True):
            mask = band[None, tile.band_heads]
            if tile.hidden is not None:
                mask = mask.masked_fill(tile.hidden, -torch.inf)
            part = tile.blocks, tile.heads
            outs[part], lse = _attend(queries[part], keys[part], values[part], mask, scale)
            if blocks.has_masked_keys:  # the fused kernel returns 0 where a query sees no key
                lse = lse.masked_fill(mask.amax(-1) == -torch.inf, -torch.inf)
            lses[part] = lse
        out, lse = blocks.tokens(outs), blocks.tokens(lses)
        for tokens, keys_slice, pair_bias, local in pattern.global_tiles(
            global_bias, num_heads, max_scores
        ):
            sequence = q[tokens], global_k[keys_slice], global_v[keys_slice]
            mask = None if pair_bias is None else pair_bias.pair_biases(local)[None]
            parts = _attend(*(x.transpose(0, 1)[None] for x in sequence), mask, scale)
            global_out, global_lse = (x[0].transpose(0, 1) for x in parts)
            total = torch.logaddexp(lse[tokens], global_lse)
            share = (global_lse - total).exp_()[..., None].to(out.dtype)
            out[tokens] = out[tokens].lerp(global_out, share)
            lse[tokens] = total
        # If a query sees no key, -inf minus the least number is still -inf, and its weights are 0.
        lse.clamp_(min=torch.finfo(lse.dtype).min)
        ctx.save_for_backward(q, k, v, global_k, global_v, global_bias, band, out, lse)
        ctx.pattern = pattern
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        *inputs, out, lse = ctx.saved_tensors
        q, k, v, global_k, global_v, global_bias, band = inputs
        blocks, scale, num_heads = ctx.pattern.blocks, ctx.pattern.scale, q.shape[1]
        delta = (_widened(grad) * out).sum(-1)
        queries, d_outs, lses, deltas = map(blocks.queries, (q, grad, lse, delta))
        keys, values = blocks.spans(k, v)
        d_queries = torch.empty_like(queries, dtype=band.dtype)
        d_rows = band.new_zeros(blocks.span_rows(), 2, *k.shape[1:])
        d_band = zero_gradient(band)
        for tile in blocks.tiles(band, num_heads, TILE, apart=False):
            part = tile.blocks, tile.heads
            scores = _Scores(queries[part], keys[part], band[None, tile.band_heads], scale)
            if tile.hidden is not None:
                scores.values.masked_fill_(tile.hidden, -torch.inf)
            d_queries[part], d_spans, d_scores = scores.backward(
                values[part], d_outs[part], lses[part], deltas[part]
            )
            blocks.add_to_rows(d_rows, tile, d_spans)
            if ctx.needs_input_grad[6]:
                d_band[tile.band_heads] += d_scores.sum(0)
        dq = blocks.tokens(d_queries)
        dk, dv = blocks.from_rows(d_rows)
        d_global_k, d_global_v = zero_gradient(global_k), zero_gradient(global_v)
        d_global_bias = None if global_bias is None else zero_gradient(global_bias)
        for tokens, keys_slice, pair_bias, local in ctx.pattern.global_tiles(
            global_bias, num_heads, TILE
        ):
            pairs = q[tokens], global_k[keys_slice], global_v[keys_slice], grad[tokens]
            query, key, value, d_out = (x.transpose(0, 1)[None] for x in pairs)
            bias = None if pair_bias is None else pair_bias.pair_biases(local)[None]
            scores = _Scores(query, key, bias, scale)
            d_query, d_keys_values, d_scores = scores.backward(
                value, d_out, lse[tokens].T[None], delta[tokens].T[None]
            )
            dq[tokens] += d_query[0].transpose(0, 1)
            d_global_k[keys_slice] += d_keys_values[0, 0].transpose(0, 1)
            d_global_v[keys_slice] += d_keys_values[1, 0].transpose(0, 1)
            if pair_bias is not None and d_global_bias is not None:
                pair_bias.add_gradient(d_global_bias, local, d_scores[0])
        for d in (dq, dk, d_global_k):
            d.mul_(scale)
        gradients = dq, dk, dv, d_global_k, d_global_v, d_global_bias, d_band
        return (
            *(None if d is None else d.to(x.dtype) for d, x in zip(gradients, inputs, strict=True)),
            None,
        )


def _attend(
    queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, scale: float
) -> tuple[Tensor, Tensor]:
    """Attend with a mask that is added to the scores.

    Args:
        queries: `(batch, heads, queries, head_dim)`.
        keys: `(batch, heads, keys, head_dim)`.
        values: Shaped like the keys.
        mask: Broadcasts to `(batch, heads, queries, keys)`, in the dtype of sums.
        scale: Factor on the products.

    Returns:
        The output, shaped like the queries, and the log-sum-exps `(batch, heads, queries)`.
    """
    if queries.device.type == "cpu":
        out, lse = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
            queries, keys, values, attn_mask=mask, scale=scale
        )
        return out, lse
    scores = (_widened(queries) * scale) @ _widened(keys).mT
    if mask is not None:
        scores += mask
    lse = scores.logsumexp(-1, keepdim=True)
    weights = scores.sub_(lse.clamp(min=torch.finfo(lse.dtype).min)).exp_()
    return (weights @ _widened(values)).to(queries.dtype), lse[..., 0]


class _Scores:
    """Scores of a tile, computed once more for the gradients.

    Scores and their gradients are in float32 at least, the other products in the dtype of the
    inputs.

    Attributes:
        values: `(batch, heads, queries, keys)`.
    """

    def __init__(self, queries: Tensor, keys: Tensor, bias: Tensor | None, scale: float):
        shape = *queries.shape[:3], keys.shape[2]
        self.queries, self.keys = (x.contiguous().flatten(0, 1) for x in (queries, keys))
        wide_queries, wide_keys = _widened(self.queries), _widened(self.keys)
        if bias is None:
            values = wide_queries.new_zeros(shape)
        else:
            values = bias.expand(shape).clone(memory_format=torch.contiguous_format)
        self.values = values
        values.flatten(0, 1).baddbmm_(wide_queries, wide_keys.mT, alpha=scale)

    def backward(
        self, values: Tensor, d_out: Tensor, lse: Tensor, delta: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Compute gradients of queries, stacked keys and values, and scores.

        Those of queries and keys are without the scale.
        """
        d_out, values = (x.contiguous().flatten(0, 1) for x in (d_out, values))
        weights = self.values.sub_(lse[..., None]).exp_()
        d_scores = _widened(d_out @ values.mT).view_as(weights)
        d_scores.sub_(delta[..., None]).mul_(weights)
        narrow_weights, narrow = (x.flatten(0, 1).to(d_out.dtype) for x in (weights, d_scores))
        d_keys_values = self.keys.new_empty(2, *self.keys.shape)
        torch.bmm(narrow.mT, self.queries, out=d_keys_values[0])
        torch.bmm(narrow_weights.mT, d_out, out=d_keys_values[1])
        batch_and_heads = weights.shape[:2]
        d_queries = (narrow @ self.keys).unflatten(0, batch_and_heads)
        return d_queries, d_keys_values.unflatten(1, batch_and_heads), d_scores


def _widened(x: Tensor) -> Tensor:
    """Convert x to the dtype in which sums are accumulated."""
    return x.to(accumulation_dtype(x.dtype))
