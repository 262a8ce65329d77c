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
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

TILE = 1 << 18
"""Attention scores materialized together, which should stay in cache; or one query's, if more."""


class Group(NamedTuple):
    """Who attends whom: `queries` `(g, m)` and `keys` `(g, n)` are rows, with their positions.

    Where these count up by one from query to query and down by one from key to key, `diagonal` may
    say so: each distance then has a diagonal of the scores, which saves most of the work on biases.
    """

    queries: Tensor
    keys: Tensor
    q_positions: Tensor
    k_positions: Tensor
    diagonal: bool


class Sequences:
    """Groups of packed sequences: those of equal lengths together, as many as make a tile."""

    def __init__(
        self,
        q_lengths: Sequence[int],
        k_lengths: Sequence[int],
        q_positions: Tensor | None,
        k_positions: Tensor | None,
        device: torch.device,
    ):
        self.device = device
        self.q_positions, self.k_positions = q_positions, k_positions
        self.starts: dict[tuple[int, int], list[list[int]]] = {}
        q_starts, k_starts = accumulate(q_lengths, initial=0), accumulate(k_lengths, initial=0)
        for m, n, *starts in zip(q_lengths, k_lengths, q_starts, k_starts, strict=False):
            self.starts.setdefault((m, n), []).append(starts)

    def __iter__(self) -> Iterator[Group]:
        """Yield the groups; every query is in exactly one, every key too."""
        for (m, n), starts in self.starts.items():
            query = torch.arange(m, device=self.device)
            key = torch.arange(n, device=self.device).flip(0)
            for some in torch.tensor(starts, device=self.device).split(max(1, TILE // (m * n))):
                queries, keys = some[:, :1] + query, some[:, 1:] + key
                yield Group(
                    *(queries, keys),
                    _positions(self.q_positions, queries, query),
                    _positions(self.k_positions, keys, key),
                    diagonal=self.q_positions is None and self.k_positions is None,
                )


def _positions(positions: Tensor | None, rows: Tensor, places: Tensor) -> Tensor:
    """Positions of rows, which are their places in their sequences if not given."""
    return places.expand(rows.shape) if positions is None else positions[rows]


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
                if d_bias is not None and tile.biases is not None:
                    tile.biases.add_gradient(d_bias[tile.heads], ds)
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
    biases: "_Pairs | _Diagonals | None"
    key_bias: Tensor | None
    """`(g, 1, n)`."""
    hidden: Tensor | None
    """Pairs that do not see each other, `(g, m, n)`."""

    def softmax(self, scores: Tensor) -> Tensor:
        """Turn products of queries and keys into attention weights, in place."""
        if self.biases is not None:
            scores += self.biases.of_pairs()
        if self.key_bias is not None:
            scores += self.key_bias
        if self.hidden is not None:
            scores.masked_fill_(self.hidden, -torch.inf)
        # Where a query sees no key, -inf minus the least number is still -inf, and its weights 0.
        # Elsewhere the highest score adds 1 to the sum.
        highest = scores.amax(-1, keepdim=True).clamp_(min=torch.finfo(scores.dtype).min)
        weights = scores.sub_(highest).exp_()
        return weights.div_(weights.sum(-1, keepdim=True).clamp_(min=1))


class _Pairs(NamedTuple):
    """Biases of a tile whose positions are any.

    Attributes:
        bias: the heads' bias by distance `(heads, 2·reach + 1)`.
        place: where in it each pair looks, `(g, m, n)`.
    """

    bias: Tensor
    place: Tensor

    def of_pairs(self) -> Tensor:
        """Biases `(heads, g, m, n)`."""
        return self.bias.index_select(1, self.place.flatten()).view(-1, *self.place.shape)

    def add_gradient(self, d_bias: Tensor, slopes: Tensor) -> None:
        """Add to the bias's gradient `(heads, 2·reach + 1)` the scores', `(heads, g, m, n)`."""
        _add_by_place(d_bias, self.place, slopes)


class _Diagonals(NamedTuple):
    """Biases of a tile in which each distance has a diagonal, from upper right to lower left.

    Attributes:
        bias: the heads' bias by distance `(heads, 2·reach + 1)`.
        place: where in it each diagonal looks, `(g, m + n - 1)`.
        queries: m.
    """

    bias: Tensor
    place: Tensor
    queries: int

    def of_pairs(self) -> Tensor:
        """Biases `(heads, g, m, n)`, a view that takes each of m + n - 1 up to m times."""
        (g, diagonals), m = self.place.shape, self.queries
        bias = self.bias.index_select(1, self.place.flatten()).unflatten(1, (g, diagonals))
        return bias.unfold(2, diagonals - m + 1, 1)

    def add_gradient(self, d_bias: Tensor, slopes: Tensor) -> None:
        """Add to the bias's gradient `(heads, 2·reach + 1)` the scores', `(heads, g, m, n)`."""
        (_, diagonals), m = self.place.shape, self.queries
        # With m columns more, what stood on a diagonal stands in a column of rows one shorter.
        columns = F.pad(slopes, (0, m)).flatten(2)[..., : m * diagonals]
        sums = columns.unflatten(2, (m, diagonals)).sum(2)
        _add_by_place(d_bias, self.place, sums)


def _tiles(
    group: Group, heads: int, bias: Tensor | None, key_bias: Tensor | None, causal: bool
) -> Iterator[_Tile]:
    (g, m), n = group.queries.shape, group.keys.shape[1]
    of_keys = None if key_bias is None else key_bias[group.keys][:, None]
    for rows in _slices(m, TILE // (g * n)):
        count, q_positions = rows.stop - rows.start, group.q_positions[:, rows]
        hidden = group.k_positions[:, None] > q_positions[..., None] if causal else None
        biases: _Pairs | _Diagonals | None = None
        if bias is not None and group.diagonal:
            first = group.k_positions[:, :1] - q_positions[:, :1]
            down = torch.arange(count + n - 1, device=first.device)
            biases = _Diagonals(bias, _places(first - down, bias), count)
        elif bias is not None:
            distance = group.k_positions[:, None] - q_positions[..., None]
            biases = _Pairs(bias, _places(distance, bias))
        for some in _slices(heads, TILE // (g * count * n)):
            of_heads = None if biases is None else biases._replace(bias=biases.bias[some])
            yield _Tile(some, (some, slice(None), rows), of_heads, of_keys, hidden)


def _places(distance: Tensor, bias: Tensor) -> Tensor:
    """Where distances stand in a bias by distance."""
    reach = bias.shape[1] // 2
    return distance.clamp(-reach, reach).add_(reach)


def _add_by_place(d_bias: Tensor, place: Tensor, slopes: Tensor) -> None:
    """Add slopes `(heads, g, …)` where places `(g, …)` say."""
    place = place.flatten().expand(len(slopes), -1)
    d_bias.scatter_add_(1, place, slopes.flatten(1).to(d_bias.dtype))


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
