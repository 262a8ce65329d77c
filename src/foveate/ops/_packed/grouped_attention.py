"""Softmax attention within groups in plain PyTorch: any device, linear memory, differentiable.

A group is g sets of m queries, each with its own n keys, so that nothing is padded. It is attended
one tile at a time: as many heads and queries as fit, but always all n keys. The softmax of a tile
is therefore complete. On a CPU, a tile is one fused kernel, and a whole group if its biases are a
view that takes no memory. The backward pass recomputes the scores.
"""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from foveate.ops._packed.cpu_kernel import attend, has_cpu_kernel
from foveate.ops.differentiation import once_differentiable
from foveate.ops.precision import accumulation_dtype, widened, zero_gradient

TILE = 1 << 18
"""Scores materialized at once, which should fit in cache, unless one query has more."""


class Group(NamedTuple):
    """Sets of queries and the keys that each set attends to.

    Attributes:
        queries: Indices of the queries, `(g, m)`.
        keys: Indices of the keys, `(g, n)`.
        q_positions: Positions of the queries, `(g, m)`.
        k_positions: Positions of the keys, `(g, n)`.
        diagonal: Whether positions count up by one from query to query and down by one from key to
            key. Each distance then has one diagonal of the scores, which saves most of the work on
            the bias.
    """

    queries: Tensor
    keys: Tensor
    q_positions: Tensor
    k_positions: Tensor
    diagonal: bool


def sets_per_tile(m: int, n: int) -> int:
    """Return how many sets of m queries and n keys make a tile."""
    return max(1, TILE // (m * n))


def grouped_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    bias: Tensor | None,
    key_bias: Tensor | None,
    groups: Iterable[Group],
    scale: float,
) -> Tensor:
    """Attend within each group; zero where a query sees no key.

    Args:
        q: Queries `(tokens, heads, head_dim)`.
        k: Keys `(key_tokens, heads, head_dim)`.
        v: Values, shaped like the keys.
        bias: Bias by distance `(heads, 2·reach + 1)`, see `buckets.bias_by_distance`; -inf hides
            keys at a distance.
        key_bias: Added to all scores of a key, `(key_tokens,)`.
        groups: An iterable that yields the same groups each time; every query is in exactly one.
        scale: Factor on the products of queries and keys.

    Returns:
        `(tokens, heads, head_dim)` in the dtype of `q`; sums are computed in float32 at least.
    """
    out: Tensor = _GroupedAttention.apply(q, k, v, bias, key_bias, groups, scale)
    return out


class _GroupedAttention(torch.autograd.Function):
    """With s = scale·q·k + biases and p = exp(s - lse): o = p·v, ds = p ∘ (do·v - Σ do ∘ o)."""

    @staticmethod
    def forward(
        ctx: Any,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        bias: Tensor | None,
        key_bias: Tensor | None,
        groups: Iterable[Group],
        scale: float,
    ) -> Tensor:
        out = torch.empty_like(q)
        lse = q.new_empty((*q.shape[:2], 1), dtype=accumulation_dtype(q.dtype))
        for group in groups:
            queries = _gather(q, group.queries)
            keys, values = _gather(k, group.keys), _gather(v, group.keys)
            outs, lses = torch.empty_like(queries), torch.empty_like(queries[..., :1])
            needs_no_memory = bias is None or (group.diagonal and key_bias is None)
            is_one_call = has_cpu_kernel(q) and needs_no_memory
            max_scores = lses.numel() * keys.shape[2] if is_one_call else TILE
            for tile in _tiles(group, max_scores, lse.dtype, q.shape[1], bias, key_bias):
                mask = tile.mask()
                attended, tile_lse = attend(
                    queries[tile.queries].transpose(0, 1),
                    keys[tile.heads].transpose(0, 1),
                    values[tile.heads].transpose(0, 1),
                    None if mask is None else mask.transpose(0, 1),
                    scale,
                )
                outs[tile.queries] = attended.transpose(0, 1)
                lses[tile.queries] = tile_lse.transpose(0, 1)[..., None]
            tokens = group.queries.flatten()
            out.index_copy_(0, tokens, _tokens_first(outs).to(q.dtype))
            lse.index_copy_(0, tokens, _tokens_first(lses))
        # If a query sees no key, -inf minus the least number is still -inf, and its weights are 0.
        lse.clamp_(min=torch.finfo(lse.dtype).min)
        ctx.save_for_backward(q, k, v, bias, key_bias, out, lse)
        ctx.groups, ctx.scale = groups, scale
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, bias, key_bias, out, lse = ctx.saved_tensors
        delta = (widened(grad) * out).sum(-1, keepdim=True)
        dq, dk, dv = zero_gradient(q), zero_gradient(k), zero_gradient(v)
        _, _, _, needs_bias, needs_key_bias, *_ = ctx.needs_input_grad
        d_bias = zero_gradient(bias) if needs_bias else None
        d_key_bias = zero_gradient(key_bias) if needs_key_bias else None
        for group in ctx.groups:
            queries, d_outs, lses, deltas = (
                _gather(x, group.queries) for x in (q, grad, lse, delta)
            )
            keys, values = _gather(k, group.keys), _gather(v, group.keys)
            queries.mul_(ctx.scale)
            d_queries, d_keys, d_values = map(torch.zeros_like, (queries, keys, values))
            for tile in _tiles(group, TILE, lse.dtype, q.shape[1], bias, key_bias):
                scores = queries[tile.queries] @ keys[tile.heads].mT
                if (mask := tile.mask()) is not None:
                    scores += mask
                p = scores.sub_(lses[tile.queries]).exp_()
                d_values[tile.heads] += p.mT @ d_outs[tile.queries]
                ds = d_outs[tile.queries] @ values[tile.heads].mT
                ds.sub_(deltas[tile.queries]).mul_(p)
                d_queries[tile.queries] = ds @ keys[tile.heads]
                d_keys[tile.heads] += ds.mT @ queries[tile.queries]
                if d_bias is not None and tile.bias is not None:
                    tile.bias.add_gradient(d_bias[tile.heads], ds)
                if d_key_bias is not None:
                    key_sums = ds.sum((0, 2)).flatten().to(d_key_bias.dtype)
                    d_key_bias.index_add_(0, group.keys.flatten(), key_sums)
            dq.index_copy_(0, group.queries.flatten(), _tokens_first(d_queries.mul_(ctx.scale)))
            dk.index_add_(0, group.keys.flatten(), _tokens_first(d_keys))
            dv.index_add_(0, group.keys.flatten(), _tokens_first(d_values))
        gradients = (
            None if dx is None else dx.to(x.dtype)
            for dx, x in zip(
                (dq, dk, dv, d_bias, d_key_bias), (q, k, v, bias, key_bias), strict=True
            )
        )
        return (*gradients, None, None)


class _TileBias(Protocol):
    """The bias of a tile's pairs."""

    def pair_biases(self) -> Tensor:
        """Return the bias of every pair, `(heads, g, m, n)`."""

    def add_gradient(self, d_bias: Tensor, d_scores: Tensor) -> None:
        """Add the scores' gradient `(heads, g, m, n)` to the bias's, `(heads, 2·reach + 1)`."""


class _Tile(NamedTuple):
    """Some heads of some queries of a group, with all its keys: scores `(heads, g, m, n)`.

    Attributes:
        heads: The heads.
        queries: The tile's part of `(heads, g, m, ...)`.
        bias: The bias of its pairs.
        key_bias: `(g, 1, n)`.
    """

    heads: slice
    queries: tuple[slice, slice, slice]
    bias: _TileBias | None
    key_bias: Tensor | None

    def mask(self) -> Tensor | None:
        """Return what is added to the scores, `(heads or 1, g, m or 1, n)`."""
        pair_biases = None if self.bias is None else self.bias.pair_biases()
        if self.key_bias is None:
            return pair_biases
        return self.key_bias[None] if pair_biases is None else pair_biases + self.key_bias


class _PairBias(NamedTuple):
    """Bias of a tile with arbitrary positions.

    Attributes:
        bias: The heads' bias by distance `(heads, 2·reach + 1)`.
        entries: Index of each pair's distance in the bias, `(g, m, n)`.
    """

    bias: Tensor
    entries: Tensor

    def pair_biases(self) -> Tensor:
        return self.bias.index_select(1, self.entries.flatten()).view(-1, *self.entries.shape)

    def add_gradient(self, d_bias: Tensor, d_scores: Tensor) -> None:
        _scatter_add(d_bias, self.entries, d_scores)


class _DiagonalBias(NamedTuple):
    """Bias of a tile in which each distance has a diagonal, from upper right to lower left.

    Attributes:
        bias: The heads' bias by distance `(heads, 2·reach + 1)`.
        entries: Index of each diagonal's distance in the bias, `(g, m + n - 1)`.
        num_queries: m, the number of queries in a set.
    """

    bias: Tensor
    entries: Tensor
    num_queries: int

    def pair_biases(self) -> Tensor:
        # A view in which each of the m + n - 1 biases occurs up to m times.
        (g, diagonals), m = self.entries.shape, self.num_queries
        bias: Tensor = self.bias.index_select(1, self.entries.flatten())
        bias = bias.unflatten(1, (g, diagonals))
        return bias.unfold(2, diagonals - m + 1, 1)

    def add_gradient(self, d_bias: Tensor, d_scores: Tensor) -> None:
        (_, diagonals), m = self.entries.shape, self.num_queries
        # After padding by m columns, rows that are one shorter turn diagonals into columns.
        columns = F.pad(d_scores, (0, m)).flatten(2)[..., : m * diagonals]
        _scatter_add(d_bias, self.entries, columns.unflatten(2, (m, diagonals)).sum(2))


def _tiles(
    group: Group,
    max_scores: int,
    dtype: torch.dtype,
    num_heads: int,
    bias: Tensor | None,
    key_bias: Tensor | None,
) -> Iterator[_Tile]:
    """Cut a group into tiles of at most so many scores, with biases in the dtype of these."""
    (g, m), n = group.queries.shape, group.keys.shape[1]
    bias = None if bias is None else bias.to(dtype)
    group_key_bias = None if key_bias is None else key_bias[group.keys][:, None].to(dtype)
    for queries in _slices(m, max_scores // (g * n)):
        num_queries, q_positions = queries.stop - queries.start, group.q_positions[:, queries]
        pair_bias: _PairBias | _DiagonalBias | None = None
        if bias is not None and group.diagonal:
            first = group.k_positions[:, :1] - q_positions[:, :1]
            diagonal = torch.arange(num_queries + n - 1, device=first.device)
            pair_bias = _DiagonalBias(bias, _bias_index(first - diagonal, bias), num_queries)
        elif bias is not None:
            distance = group.k_positions[:, None] - q_positions[..., None]
            pair_bias = _PairBias(bias, _bias_index(distance, bias))
        for heads in _slices(num_heads, max_scores // (g * num_queries * n)):
            tile_bias = (
                None if pair_bias is None else pair_bias._replace(bias=pair_bias.bias[heads])
            )
            yield _Tile(heads, (heads, slice(None), queries), tile_bias, group_key_bias)


def _bias_index(distance: Tensor, bias: Tensor) -> Tensor:
    """Return the indices of distances in a bias by distance."""
    reach = bias.shape[1] // 2
    return distance.clamp(-reach, reach).add_(reach)


def _scatter_add(d_bias: Tensor, index: Tensor, d_scores: Tensor) -> None:
    """Add gradients `(heads, g, …)` to the entries of `d_bias` that an index `(g, …)` names."""
    index = index.flatten().expand(len(d_scores), -1)
    d_bias.scatter_add_(1, index, d_scores.flatten(1).to(d_bias.dtype))


def _slices(length: int, max_size: int) -> Iterator[slice]:
    """Cut into slices of nearly equal size, at most `max_size` long but never empty."""
    number = -(-length // max(1, max_size))
    return (slice(length * i // number, length * (i + 1) // number) for i in range(number))


def _gather(x: Tensor, tokens: Tensor) -> Tensor:
    """Gather tokens `(g, m)` of x `(n, heads, head_dim)` to `(heads, g, m, head_dim)`, widened."""
    gathered: Tensor = widened(x.index_select(0, tokens.flatten())).unflatten(0, tokens.shape)
    return gathered.permute(2, 0, 1, 3)


def _tokens_first(x: Tensor) -> Tensor:
    """Flatten `(heads, g, m, head_dim)` to `(g·m, heads, head_dim)`."""
    return x.permute(1, 2, 0, 3).flatten(0, 1)
