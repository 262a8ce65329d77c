"""Relative attention in plain torch: any device, linear memory, differentiable.

Rows are attended in groups: g sets of m queries, each set with n keys of its own, so that nothing
is padded. A group's scores are computed a tile at a time, as many heads and queries as fit, but
always all n keys. The softmax of a tile is therefore whole, and the backward pass needs nothing
from the forward pass but its inputs: it computes the same tiles again.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

TILE = 1 << 18
"""Attention scores materialized together, which should stay in cache; or one query's, if more."""


class Group(NamedTuple):
    """Who attends whom: `queries` `(g, m)` and `keys` `(g, n)` are rows, with their positions."""

    queries: Tensor
    keys: Tensor
    q_positions: Tensor
    k_positions: Tensor


def from_zero(lengths: Sequence[int], device: torch.device) -> Tensor:
    """Positions 0, 1, … in each of the packed sequences."""
    return torch.cat([torch.arange(0), *map(torch.arange, lengths)]).to(device)


class Sequences:
    """Groups of packed sequences: those of equal lengths together, as many as make a tile."""

    def __init__(
        self,
        q_lengths: Sequence[int],
        k_lengths: Sequence[int],
        q_positions: Tensor,
        k_positions: Tensor,
    ):
        self.q_positions, self.k_positions = q_positions, k_positions
        self.starts: dict[tuple[int, int], list[list[int]]] = {}
        q_starts, k_starts = accumulate(q_lengths, initial=0), accumulate(k_lengths, initial=0)
        for m, n, *starts in zip(q_lengths, k_lengths, q_starts, k_starts, strict=False):
            self.starts.setdefault((m, n), []).append(starts)

    def __iter__(self) -> Iterator[Group]:
        """Yield the groups; every query is in exactly one, every key too."""
        device = self.q_positions.device
        for (m, n), starts in self.starts.items():
            for some in torch.tensor(starts, device=device).split(max(1, TILE // (m * n))):
                queries = some[:, :1] + torch.arange(m, device=device)
                keys = some[:, 1:] + torch.arange(n, device=device)
                yield Group(queries, keys, self.q_positions[queries], self.k_positions[keys])


def grouped_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    bias: Tensor | None,
    key_bias: Tensor | None,
    groups: Iterable[Group],
    causal: bool,
    scale: float,
) -> Tensor:
    """Softmax attention inside each group; zero where a query sees no key.

    Args:
        q: queries `(rows, heads, head_dim)`.
        k: keys `(key_rows, heads, head_dim)`.
        v: values, shaped like the keys.
        bias: bias by distance `(heads, 2·reach + 1)`, see `buckets.bias_by_distance`.
        key_bias: added to all scores of a key, `(key_rows,)`.
        groups: can be iterated over again and gives the same groups; every query is in one.
        causal: whether keys at positions after the query's are hidden from it.
        scale: factor on the products of queries and keys.

    Returns:
        `(rows, heads, head_dim)` in the dtype of `q`; sums are made in float32 at least.
    """
    result: Tensor = _GroupedAttention.apply(q, k, v, bias, key_bias, groups, causal, scale)
    return result


class _GroupedAttention(torch.autograd.Function):
    """With s = scale·q·k + biases and p = softmax(s): o = p·v, ds = p ∘ (do·v - Σ p ∘ do·v)."""

    @staticmethod
    def forward(
        ctx: Any,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        bias: Tensor | None,
        key_bias: Tensor | None,
        groups: Iterable[Group],
        causal: bool,
        scale: float,
    ) -> Tensor:
        ctx.save_for_backward(q, k, v, bias, key_bias)
        ctx.groups, ctx.causal, ctx.scale = groups, causal, scale
        out = torch.empty_like(q)
        for group in groups:
            queries, keys = _take(q, group.queries).mul_(scale), _take(k, group.keys)
            values, outs = _take(v, group.keys), torch.empty_like(queries)
            for tile in _tiles(group, q.shape[1], bias, key_bias, causal):
                p = tile.softmax(queries[tile.rows] @ keys[tile.heads].mT)
                outs[tile.rows] = p @ values[tile.heads]
            out.index_copy_(0, group.queries.flatten(), _give(outs).to(q.dtype))
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, bias, key_bias = ctx.saved_tensors
        dq, dk, dv = _zeros(q), _zeros(k), _zeros(v)
        d_bias = None if bias is None else _zeros(bias)
        d_key_bias = None if key_bias is None else _zeros(key_bias)
        for group in ctx.groups:
            queries, keys = _take(q, group.queries).mul_(ctx.scale), _take(k, group.keys)
            values, d_outs = _take(v, group.keys), _take(grad, group.queries)
            d_queries, d_keys, d_values = map(torch.zeros_like, (queries, keys, values))
            for tile in _tiles(group, q.shape[1], bias, key_bias, ctx.causal):
                p = tile.softmax(queries[tile.rows] @ keys[tile.heads].mT)
                d_values[tile.heads] += p.mT @ d_outs[tile.rows]
                ds = d_outs[tile.rows] @ values[tile.heads].mT
                ds = ds.sub_((p * ds).sum(-1, keepdim=True)).mul_(p)
                d_queries[tile.rows] = ds @ keys[tile.heads]
                d_keys[tile.heads] += ds.mT @ queries[tile.rows]
                if d_bias is not None:
                    d_bias[tile.heads] += tile.sum_by_distance(ds, d_bias.shape[1])
                if d_key_bias is not None:
                    of_keys = ds.sum((0, 2)).flatten().to(d_key_bias.dtype)
                    d_key_bias.index_add_(0, group.keys.flatten(), of_keys)
            dq.index_copy_(0, group.queries.flatten(), _give(d_queries.mul_(ctx.scale)))
            dk.index_add_(0, group.keys.flatten(), _give(d_keys))
            dv.index_add_(0, group.keys.flatten(), _give(d_values))
        gradients = (
            None if dx is None else dx.to(x.dtype)
            for dx, x in zip(
                (dq, dk, dv, d_bias, d_key_bias), (q, k, v, bias, key_bias), strict=True
            )
        )
        return (*gradients, None, None, None)


class _Tile(NamedTuple):
    """Some heads of some queries of a group, with all its keys: scores `(heads, g, m, n)`."""

    heads: slice
    rows: tuple[slice, slice, slice]
    """The tile's part of `(heads, g, m, ...)`."""
    bias: Tensor | None
    """The heads' bias by distance `(heads, 2·reach + 1)`."""
    place: Tensor | None
    """Where in that bias each pair looks, `(g, m, n)`."""
    key_bias: Tensor | None
    """`(g, 1, n)`."""
    hidden: Tensor | None
    """Pairs that do not see each other, `(g, m, n)`."""

    def softmax(self, scores: Tensor) -> Tensor:
        """Turn products of queries and keys into attention weights, in place."""
        if self.bias is not None and self.place is not None:
            bias = self.bias.index_select(1, self.place.flatten())
            scores += bias.view(-1, *self.place.shape)
        if self.key_bias is not None:
            scores += self.key_bias
        if self.hidden is not None:
            scores.masked_fill_(self.hidden, -torch.inf)
        # Where a query sees no key, -inf minus the least number is still -inf, and its weights 0.
        # Elsewhere the highest score adds 1 to the sum.
        highest = scores.amax(-1, keepdim=True).clamp_(min=torch.finfo(scores.dtype).min)
        weights = scores.sub_(highest).exp_()
        return weights.div_(weights.sum(-1, keepdim=True).clamp_(min=1))

    def sum_by_distance(self, scores: Tensor, distances: int) -> Tensor:
        """Sum of the scores at each distance, `(heads, distances)`."""
        assert self.place is not None
        place = self.place.flatten().expand(len(scores), -1)
        return scores.new_zeros(len(scores), distances).scatter_add_(1, place, scores.flatten(1))


def _tiles(
    group: Group, heads: int, bias: Tensor | None, key_bias: Tensor | None, causal: bool
) -> Iterator[_Tile]:
    (g, m), n = group.queries.shape, group.keys.shape[1]
    of_keys = None if key_bias is None else key_bias[group.keys][:, None]
    place = hidden = None
    for rows in _slices(m, TILE // (g * n)):
        if bias is not None or causal:
            distance = group.k_positions[:, None] - group.q_positions[:, rows, None]
            hidden = distance > 0 if causal else None
            if bias is not None:
                reach = bias.shape[1] // 2
                place = distance.clamp_(-reach, reach).add_(reach)
        for some in _slices(heads, TILE // (g * (rows.stop - rows.start) * n)):
            of_heads = None if bias is None else bias[some]
            yield _Tile(some, (some, slice(None), rows), of_heads, place, of_keys, hidden)


def _slices(length: int, at_once: int) -> Iterator[slice]:
    """Slices of like size, `at_once` long at most, but never empty."""
    number = -(-length // max(1, at_once))
    return (slice(length * i // number, length * (i + 1) // number) for i in range(number))


def _zeros(x: Tensor) -> Tensor:
    """Where the gradient of x is summed."""
    return torch.zeros(x.shape, dtype=_sums(x.dtype), device=x.device)


def _sums(dtype: torch.dtype) -> torch.dtype:
    """Precision of everything between reading and writing rows of a dtype."""
    return torch.promote_types(dtype, torch.float32)


def _take(x: Tensor, rows: Tensor) -> Tensor:
    """Rows `(g, m)` of x `(n, heads, head_dim)`: `(heads, g, m, head_dim)`, at least float32."""
    taken = x.index_select(0, rows.flatten()).to(_sums(x.dtype))
    return taken.unflatten(0, rows.shape).permute(2, 0, 1, 3)


def _give(x: Tensor) -> Tensor:
    """Rows `(g·m, heads, head_dim)` of x `(heads, g, m, head_dim)`."""
    return x.permute(1, 2, 0, 3).flatten(0, 1)
