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

import math
from collections.abc import Iterator, Sequence
from itertools import accumulate, groupby
from typing import Any, NamedTuple

import torch
from torch import Tensor

from foveate.ops._packed.buckets import bias_by_distance
from foveate.ops._packed.cpu_kernel import attend
from foveate.ops.compiling import uncompiled
from foveate.ops.differentiation import once_differentiable
from foveate.ops.precision import accumulation_dtype, widened, zero_gradient

from .global_attention import GlobalKeysValues, masked_key_bias

TILE = 1 << 20
"""The number of scores to materialize at once, which should fit in cache; at least a block's."""

MASK_TILE = 1 << 23
"""The number of scores of a fused kernel, which bounds the memory of its mask."""


@uncompiled  # the loops depend on positions, and torch.compile read those before they were computed
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
    """Compute softmax attention of `(tokens, heads, head_dim)`; zero where a query sees no key."""
    kv = global_keys_values
    size = min(max(lengths), max(64, min(256, (sum(window) + 1) // 4)))
    dtype = accumulation_dtype(q.dtype)
    band = _band(window, size, _by_distance(bias, max_distance, dtype), q)
    blocks = _Blocks(lengths, size, window, masked_keys, q.device)
    key_bias = None if kv.masked is None else masked_key_bias(kv.masked).to(dtype)
    pattern = _Pattern(blocks, _global_slices(lengths, kv), kv.positions, key_bias, scale)
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

    The blocks of a head follow those of the head before it, `size` rows each. All spans are then
    one view of the rows; where they reach into another sequence or head, keys are hidden.

    Attributes:
        size: Rows of a block.
        number: The number of blocks of a head.
        span: Rows of a span.
        hidden: The keys of each block's span that are of no or another sequence or masked,
            `(number, span)` bool.
        has_masked_keys: Whether a query may see nothing.
    """

    def __init__(
        self,
        lengths: Sequence[int],
        size: int,
        window: tuple[int, int],
        masked_keys: Tensor | None,
        device: torch.device,
    ):
        self.left, right = window
        self.size, self.span = size, self.left + size + right
        counts = [-(-n // size) for n in lengths]
        self.number = sum(counts)
        firsts = accumulate(counts, initial=0)
        self._slices = [
            (slice(stop - n, stop), slice(first * size, first * size + n))
            for n, stop, first in zip(lengths, accumulate(lengths), firsts, strict=False)
        ]
        owner = torch.full((self.left + self.number * size + right,), -1, device=device)
        for sequence, (tokens, rows) in enumerate(self._slices):
            part = owner[self.left + rows.start : self.left + rows.stop]
            part.fill_(sequence)
            if masked_keys is not None:
                part.masked_fill_(masked_keys[tokens], -1)
        sequences = torch.arange(len(lengths), device=device)
        sequence_of_block = sequences.repeat_interleave(torch.tensor(counts, device=device))
        self.hidden = owner.unfold(0, self.span, size) != sequence_of_block[:, None]
        self.has_masked_keys = masked_keys is not None
        self._is_cut: list[bool] = self.hidden.any(1).tolist()

    def queries(self, x: Tensor) -> Tensor:
        """Copy `(tokens, heads, ...)` to `(heads, number, size, ...)`."""
        rows = x.new_empty(x.shape[1], self.number * self.size, *x.shape[2:])
        self._copy(x, rows)
        blocks: Tensor = rows.unflatten(1, (self.number, self.size))
        return blocks

    def tokens(self, queries: Tensor) -> Tensor:
        """Undo `queries`."""
        rows = queries.flatten(1, 2).transpose(0, 1)
        parts = [rows[part] for _, part in self._slices]
        return torch.cat(parts) if len(parts) > 1 else parts[0]

    def spans(self, x: Tensor) -> Tensor:
        """View a copy of `(tokens, heads, head_dim)` as `(heads, number, span, head_dim)`."""
        num_heads, num_rows = x.shape[1], self.number * self.size
        rows = x.new_empty(num_heads * num_rows + self.span - self.size, x.shape[2])
        inner = rows[self.left : self.left + num_heads * num_rows]
        for margin in (rows[: self.left], rows[self.left + len(inner) :]):
            margin.zero_()
        self._copy(x, inner.unflatten(0, (num_heads, num_rows)))
        spans: Tensor = rows.unfold(0, self.span, self.size).mT
        spans = spans.unflatten(0, (num_heads, self.number))
        return spans

    def _copy(self, x: Tensor, rows: Tensor) -> None:
        for tokens, part in self._slices:
            rows[:, part] = x[tokens].transpose(0, 1)
            padding = -part.stop % self.size
            rows[:, part.stop : part.stop + padding] = 0

    def zero_span_gradients(self, x: Tensor) -> Tensor:
        """Return rows `(2, rows, head_dim)` in which to sum the gradients of two `spans`."""
        rows = self.size * (x.shape[1] * self.number - 1 - (-self.span // self.size))
        return x.new_zeros(2, rows, x.shape[2], dtype=accumulation_dtype(x.dtype))

    def add_to_rows(self, rows: Tensor, tile: "_Tile", spans: Tensor) -> None:
        """Add gradients `(2, blocks, span, head_dim)` of a tile's spans, which overlap."""
        count, block = spans.shape[1], tile.heads.start * self.number + tile.blocks.start
        for offset in range(0, self.span, self.size):
            first = block * self.size + offset
            chunk = rows[:, first : first + count * self.size].unflatten(1, (count, self.size))
            part = spans[:, :, offset : offset + self.size]
            chunk[:, :, : part.shape[2]] += part

    def from_rows(self, rows: Tensor, num_heads: int) -> Tensor:
        """Undo `spans`, given sums `(rows, head_dim)` over what overlaps."""
        inner = rows[self.left : self.left + num_heads * self.number * self.size]
        return self.tokens(inner.unflatten(0, (num_heads, self.number, self.size)))

    def tiles(self, num_heads: int) -> Iterator["_Tile"]:
        """Yield tiles, each of some blocks of a head or of all blocks of some heads."""
        scores = self.size * self.span
        for heads in _equal_slices(num_heads, TILE // (scores * self.number)):
            for blocks in _equal_slices(self.number, TILE // scores):
                yield _Tile(heads, blocks)

    def runs(self, blocks: slice) -> Iterator[tuple[bool, slice]]:
        """Yield slices of blocks that are all cut or all not, and which of both."""
        first = blocks.start
        for is_cut, run in groupby(self._is_cut[blocks]):
            stop = first + len(list(run))
            yield is_cut, slice(first, stop)
            first = stop


def _equal_slices(length: int, max_size: int) -> list[slice]:
    """Cut into slices of nearly equal size, at most `max_size` long but never empty."""
    number = -(-length // max(1, max_size))
    return [slice(length * i // number, length * (i + 1) // number) for i in range(number)]


class _Tile(NamedTuple):
    """Some blocks of some heads."""

    heads: slice
    blocks: slice

    def select(self, x: Tensor) -> Tensor:
        """View the tile's part of `(heads, number, ...)` as `(blocks, ...)`."""
        return x[self.heads, self.blocks].flatten(0, 1)


def _global_slices(lengths: Sequence[int], kv: GlobalKeysValues) -> list[tuple[slice, slice]]:
    """Return the tokens and the global tokens of each sequence that sees global tokens."""
    stops, global_stops = accumulate(lengths), accumulate(kv.lengths)
    slices = [
        (slice(stop - n, stop), slice(global_stop - m, global_stop))
        for n, stop, m, global_stop in zip(lengths, stops, kv.lengths, global_stops, strict=True)
        if m
    ]
    if kv.masked is None:
        return slices
    return [(tokens, keys) for tokens, keys in slices if not kv.masked[keys].all()]


class _Pattern(NamedTuple):
    """The inputs of the scores other than queries, keys and biases."""

    blocks: _Blocks
    global_slices: list[tuple[slice, slice]]
    positions: Tensor | None
    global_key_bias: Tensor | None
    scale: float

    def global_tiles(
        self, bias: Tensor | None, num_heads: int, max_scores: int
    ) -> Iterator["_GlobalTile"]:
        """Yield tiles, each of some queries of a sequence and all of its global keys."""
        for tokens, keys in self.global_slices:
            num_keys = keys.stop - keys.start
            pair_bias = None
            if bias is not None and self.positions is not None:
                pair_bias = _GlobalBias(bias, self.positions[tokens], num_keys)
            queries_per_tile = max(1, max_scores // (num_heads * num_keys))
            for start in range(tokens.start, tokens.stop, queries_per_tile):
                queries = slice(start, min(start + queries_per_tile, tokens.stop))
                local = slice(start - tokens.start, queries.stop - tokens.start)
                mask = None if pair_bias is None else pair_bias.pair_biases(local)
                if self.global_key_bias is not None:
                    key_bias = self.global_key_bias[keys].expand(1, 1, -1)
                    mask = key_bias if mask is None else mask + key_bias
                yield _GlobalTile(queries, keys, mask, pair_bias, local)


class _GlobalTile(NamedTuple):
    """Some queries of a sequence and all of its global keys.

    Attributes:
        queries: The queries among all tokens.
        keys: The global keys among those of all sequences.
        mask: What is added to their scores, `(heads or 1, queries or 1, keys)`, if anything is.
        pair_bias: The bias of the sequence, if there is one.
        local: The queries among those of the sequence.
    """

    queries: slice
    keys: slice
    mask: Tensor | None
    pair_bias: "_GlobalBias | None"
    local: slice


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
        queries, keys, values = blocks.queries(q), blocks.spans(k), blocks.spans(v)
        outs = torch.empty_like(queries)
        lses = queries.new_empty(queries.shape[:3], dtype=band.dtype)
        per_call = max(1, max_scores // (num_heads * blocks.size * blocks.span))
        for is_cut, run in blocks.runs(slice(0, blocks.number)):
            for start in range(run.start, run.stop, per_call):
                part = slice(start, min(start + per_call, run.stop))
                mask = band[None]
                if is_cut:
                    mask = mask.masked_fill(blocks.hidden[part, None, None], -torch.inf)
                query, key, value = (x[:, part].transpose(0, 1) for x in (queries, keys, values))
                attended, lse = attend(query, key, value, mask, scale)
                if blocks.has_masked_keys:  # the fused kernel returns 0 for a query that sees none
                    lse = lse.masked_fill(mask.amax(-1) == -torch.inf, -torch.inf)
                outs[:, part], lses[:, part] = attended.transpose(0, 1), lse.transpose(0, 1)
        out, lse = blocks.tokens(outs), blocks.tokens(lses)
        for tokens, keys_slice, global_mask, _, _ in pattern.global_tiles(
            global_bias, num_heads, max_scores
        ):
            sequence = q[tokens], global_k[keys_slice], global_v[keys_slice]
            query, key, value = (x.transpose(0, 1)[None] for x in sequence)
            if global_mask is not None:
                global_mask = global_mask[None]
            attended, part_lse = attend(query, key, value, global_mask, scale)
            global_out, global_lse = attended[0].transpose(0, 1), part_lse[0].T
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
        delta = (widened(grad) * out).sum(-1)
        queries, d_outs, lses, deltas = map(blocks.queries, (q, grad, lse, delta))
        keys, values = blocks.spans(k), blocks.spans(v)
        wide_keys = keys if k.dtype == band.dtype else blocks.spans(widened(k))
        d_queries = queries.new_empty(queries.shape, dtype=band.dtype)
        d_rows = blocks.zero_span_gradients(k)
        d_band, scratch = zero_gradient(band), _Scratch()
        for tile in blocks.tiles(num_heads):
            tile_band = (band if len(band) == 1 else band[tile.heads])[:, None]
            scores = scratch.empty("scores", (*d_queries[tile].shape[:3], blocks.span), band)
            scores.copy_(tile_band)
            for is_cut, run in blocks.runs(tile.blocks):
                if is_cut:
                    part = slice(run.start - tile.blocks.start, run.stop - tile.blocks.start)
                    scores[:, part].masked_fill_(blocks.hidden[run, None], -torch.inf)
            select = tile.select
            _add_products(scores.flatten(0, 1), select(queries), select(wide_keys), scale)
            d_query, d_keys_values, d_scores = _gradients(
                scratch,
                scores.flatten(0, 1),
                *map(select, (queries, keys, values, d_outs, lses, deltas)),
            )
            d_queries[tile] = d_query.view_as(d_queries[tile])
            blocks.add_to_rows(d_rows, tile, d_keys_values)
            if ctx.needs_input_grad[6]:
                d_band[tile.heads] += d_scores.view_as(scores).sum(1)
        dq = blocks.tokens(d_queries)
        dk, dv = (blocks.from_rows(rows, num_heads) for rows in d_rows)
        d_global_k, d_global_v = zero_gradient(global_k), zero_gradient(global_v)
        d_global_bias = None if global_bias is None else zero_gradient(global_bias)
        for tokens, keys_slice, global_mask, pair_bias, local in ctx.pattern.global_tiles(
            global_bias, num_heads, TILE
        ):
            pairs = q[tokens], global_k[keys_slice], global_v[keys_slice], grad[tokens]
            query, key, value, d_out = (x.transpose(0, 1) for x in pairs)
            scores = scratch.empty("scores", (*query.shape[:2], key.shape[1]), band)
            scores.copy_(band.new_zeros(()) if global_mask is None else global_mask)
            _add_products(scores, query, widened(key), scale)
            d_query, d_keys_values, d_scores = _gradients(
                scratch, scores, query, key, value, d_out, lse[tokens].T, delta[tokens].T
            )
            dq[tokens] += d_query.transpose(0, 1)
            d_global_k[keys_slice] += d_keys_values[0].transpose(0, 1)
            d_global_v[keys_slice] += d_keys_values[1].transpose(0, 1)
            if pair_bias is not None and d_global_bias is not None:
                pair_bias.add_gradient(d_global_bias, local, d_scores)
        for d in (dq, dk, d_global_k):
            d.mul_(scale)
        gradients = dq, dk, dv, d_global_k, d_global_v, d_global_bias, d_band
        return (
            *(None if d is None else d.to(x.dtype) for d, x in zip(gradients, inputs, strict=True)),
            None,
        )


class _Scratch:
    """Memory that tiles reuse; allocating it each time costs about as much as a product."""

    def __init__(self) -> None:
        self._buffers: dict[str, Tensor] = {}

    def empty(self, name: str, shape: Sequence[int], like: Tensor) -> Tensor:
        """Return a tensor with the dtype and device of `like`, valid until the name is reused."""
        size = math.prod(shape)
        buffer = self._buffers.get(name)
        if buffer is None or len(buffer) < size:
            buffer = self._buffers[name] = like.new_empty(size)
        return buffer[:size].view(*shape)


def _add_products(scores: Tensor, queries: Tensor, wide_keys: Tensor, scale: float) -> None:
    """Add scale · q·k to scores `(batch, queries, keys)`, in their dtype."""
    scores.baddbmm_(widened(queries), wide_keys.mT, alpha=scale)


def _gradients(
    scratch: _Scratch,
    scores: Tensor,
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    d_out: Tensor,
    lse: Tensor,
    delta: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    """Compute a tile's gradients, with products in the dtype of the inputs.

    Args:
        scratch: Memory for the gradients of scores, keys and values.
        scores: `(batch, queries, keys)`, overwritten.
        queries: `(batch, queries, head_dim)`.
        keys: `(batch, keys, head_dim)`.
        values: Shaped like the keys.
        d_out: Gradient of the output, shaped like the queries.
        lse: `(batch, queries)`, log-sum-exps over all keys.
        delta: `(batch, queries)`, Σ do ∘ o.

    Returns:
        Gradients of queries, of keys and values, stacked, and of scores. Those of queries and keys
        are without the scale.
    """
    weights = scores.sub_(lse[..., None]).exp_()
    d_weights = torch.bmm(d_out, values.mT, out=scratch.empty("d_weights", scores.shape, d_out))
    d_scores = d_weights
    if d_out.dtype != scores.dtype:
        d_scores = scratch.empty("d_scores", scores.shape, scores).copy_(d_weights)
    d_scores.sub_(delta[..., None]).mul_(weights)
    narrow = d_scores.to(d_out.dtype)
    d_keys_values = scratch.empty("d_keys_values", (2, *keys.shape), d_out)
    torch.bmm(narrow.mT, queries, out=d_keys_values[0])
    torch.bmm(weights.to(d_out.dtype).mT, d_out, out=d_keys_values[1])
    return narrow @ keys, d_keys_values, d_scores
