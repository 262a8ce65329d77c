"""VIP compression on the GPU: scores, what is seen, rows read and written, as torch ops.

The ops `foveate::vip_*` are opaque to the compiler and know their output's shapes without running,
so that torch.compile, graph capture, checkpointing and distributed wrappers take them like any op
of torch's own.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from foveate.ops._triton.math import adjacent

from . import backward as _backward
from . import rows as _rows
from . import scores as _scores
from . import select as _select

__all__ = ["build", "merge", "select", "split", "spread", "vip_scores"]


def vip_scores(
    q: Tensor,
    k: Tensor,
    bias: Tensor | None,
    places: tuple[Tensor, ...],
    longest_vips: int,
    longest: int,
    scale: float,
) -> Tensor:
    """Scores of candidates, as `foveate.ops.vip_compression.vip_scores` defines them.

    Args:
        q: `(n_p, heads, head_dim)`, float16, bfloat16 or float32, any strides.
        k: `(c, heads, head_dim)`, likewise.
        bias: `(heads, 2·reach + 1)`.
        places: positions of VIP tokens and of candidates, which differ in a sequence; shares; log
            multiplicities; first row and number of each sequence's VIP tokens, then candidates.
        longest_vips: the most VIP tokens of a sequence.
        longest: the most candidates.
        scale: factor on the products.
    """
    arguments = q, k, bias, *places, longest_vips, longest, scale
    if torch.is_grad_enabled():
        scores: Tensor = _Scores.apply(*arguments)
        return scores
    return torch.ops.foveate.vip_scores.default(*arguments)[0]


def build(tokens: Tensor, counts: Sequence[Tensor]) -> tuple[Tensor, list[Tensor]]:
    """Merge all segments of each level; see `..torch.build`."""
    rows = tokens.contiguous()
    deltas: list[Tensor] = []
    for finer, count in pairwise(reversed(counts)):
        shape = len(count), len(finer) // max(1, len(count)), tokens.shape[1]
        delta = torch.empty(shape, dtype=torch.float32, device=tokens.device)
        own, every = delta.new_empty(shape[::2]), torch.arange(len(count), device=tokens.device)
        rows, delta = _Merge.apply(own, rows, delta, every, every, finer, None, None)
        deltas.insert(0, delta)
    return rows, deltas


def spread(means: Tensor, delta: Tensor, dtype: torch.dtype | None) -> Tensor:
    """Split all segments; see `..torch.spread`."""
    every = torch.arange(len(delta), device=delta.device)
    above = means.new_empty(0, means.shape[1], dtype=dtype)
    rows: Tensor = _Split.apply(above, means, delta, every, every, False)[0]
    return rows


def split(
    above: Tensor, means: Tensor, delta: Tensor, chosen: Tensor, segments: Tensor, deeper: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Read the parts of what is chosen; see `..torch.split`."""
    return _Split.apply(above.contiguous(), means, delta, chosen, segments, deeper)


def merge(
    own: Tensor,
    parts: Tensor,
    delta: Tensor,
    chosen: Tensor,
    segments: Tensor,
    counts: Tensor,
    scores: Tensor,
    moved: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """Write the parts of what was chosen; see `..torch.merge`."""
    scores_or_none = None if moved is None else scores
    return _Merge.apply(
        own, parts.contiguous(), delta, chosen, segments, counts, scores_or_none, moved
    )


def select(
    best: Tensor,
    numbers: Tensor | None,
    positions: Tensor,
    key_bias: Tensor,
    part_positions: Tensor,
    part_bias: Tensor,
    candidates: int,
    ratio: int,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Say what is seen; see `..torch.select`."""
    found: tuple[Tensor, Tensor, Tensor, Tensor] = torch.ops.foveate.vip_select.default(
        best, numbers, positions, key_bias, part_positions, part_bias, candidates, ratio
    )
    return found


_PLACES = (
    "Tensor? bias, Tensor q_positions, Tensor k_positions, Tensor shares, Tensor key_bias, "
    "Tensor q_starts, Tensor q_counts, Tensor k_starts, Tensor k_counts, "
    "SymInt longest_vips, SymInt longest, float scale"
)
for _name, _signature in {
    "vip_scores": f"(Tensor q, Tensor k, {_PLACES}) -> (Tensor, Tensor)",
    "vip_scores_backward": f"(Tensor grad, Tensor lse, Tensor q, Tensor k, {_PLACES}) -> "
    "(Tensor, Tensor, Tensor)",
    "vip_select": "(Tensor best, Tensor? numbers, Tensor positions, Tensor key_bias, "
    "Tensor part_positions, Tensor part_bias, SymInt candidates, SymInt ratio) -> "
    "(Tensor, Tensor, Tensor, Tensor)",
    "vip_split": "(Tensor above, Tensor means, Tensor delta, Tensor chosen, Tensor segments, "
    "bool deeper) -> (Tensor, Tensor)",
    "vip_split_backward": "(Tensor of_rows, Tensor? of_parts, Tensor(a!) of_delta, Tensor chosen, "
    "Tensor segments, SymInt means) -> Tensor",
    "vip_merge": "(Tensor own, Tensor parts, Tensor(a!) delta, Tensor chosen, Tensor segments, "
    "Tensor counts) -> Tensor",
    "vip_merge_backward": "(Tensor of_means, Tensor(a!) of_delta, Tensor chosen, Tensor segments, "
    "Tensor counts, Tensor? moved, ScalarType dtype) -> (Tensor, Tensor)",
}.items():
    torch.library.define(f"foveate::{_name}", _signature)


def _pairs(bias: Tensor | None, *places: Any) -> tuple[Any, ...]:
    """The arguments that all kernels of scores take."""
    q_positions, k_positions, shares, key_bias, *rest, longest_vips, longest, scale = places
    pairs = _scores.Pairs(q_positions, k_positions, shares, key_bias, bias, *rest)
    return pairs, longest_vips, longest, scale


@torch.library.impl("foveate::vip_scores", ("cpu", "cuda"))
def _(q: Tensor, k: Tensor, *places: Any) -> tuple[Tensor, Tensor]:
    return _scores.forward(adjacent(q), adjacent(k), *_pairs(*places))


@torch.library.register_fake("foveate::vip_scores")
def _(q: Tensor, k: Tensor, *places: Any) -> tuple[Tensor, Tensor]:
    shape = _scores.parts_of(places[-2]), q.shape[1], len(q)
    return k.new_empty(len(k), dtype=torch.float32), k.new_empty(shape, dtype=torch.float32)


@torch.library.impl("foveate::vip_scores_backward", ("cpu", "cuda"))
def _(grad: Tensor, lse: Tensor, q: Tensor, k: Tensor, *places: Any) -> tuple[Tensor, ...]:
    q, k = adjacent(q), adjacent(k)
    dq, dk, d_bias = _backward.backward(grad.contiguous(), q, k, lse, *_pairs(*places))
    return dq, dk, q.new_empty(0) if d_bias is None else d_bias.to(places[0].dtype)


@torch.library.register_fake("foveate::vip_scores_backward")
def _(grad: Tensor, lse: Tensor, q: Tensor, k: Tensor, *places: Any) -> tuple[Tensor, ...]:
    bias = places[0]
    d_bias = q.new_empty(0) if bias is None else bias.new_empty(bias.shape)
    return q.new_empty(q.shape), k.new_empty(k.shape), d_bias


torch.library.impl("foveate::vip_select", ("cpu", "cuda"), _select.select)


@torch.library.register_fake("foveate::vip_select")
def _(best: Tensor, numbers: Tensor | None, positions: Tensor, *rest: Any) -> tuple[Tensor, ...]:
    new_positions = positions.new_empty(len(positions) + len(best) * rest[-1])
    bias = torch.empty_like(new_positions, dtype=torch.float32)
    return torch.empty_like(best), torch.empty_like(best), new_positions, bias


torch.library.impl("foveate::vip_split", ("cpu", "cuda"), _rows.split)


@torch.library.register_fake("foveate::vip_split")
def _(
    above: Tensor, means: Tensor, delta: Tensor, chosen: Tensor, segments: Tensor, deeper: bool
) -> tuple[Tensor, Tensor]:
    parts = len(chosen) * delta.shape[1]
    rows = above.new_empty(len(above) + parts, above.shape[1])
    return rows, means.new_empty(parts if deeper else 0, means.shape[1])


torch.library.impl("foveate::vip_split_backward", ("cpu", "cuda"), _rows.split_backward)


@torch.library.register_fake("foveate::vip_split_backward")
def _(
    of_rows: Tensor,
    of_parts: Tensor | None,
    of_delta: Tensor,
    chosen: Tensor,
    segments: Tensor,
    means: int,
) -> Tensor:
    return of_delta.new_empty(means, of_delta.shape[2])


torch.library.impl("foveate::vip_merge", ("cpu", "cuda"), _rows.merge)


@torch.library.register_fake("foveate::vip_merge")
def _(own: Tensor, parts: Tensor, delta: Tensor, *rest: Tensor) -> Tensor:
    return torch.empty_like(own, dtype=delta.dtype)


@torch.library.impl("foveate::vip_merge_backward", ("cpu", "cuda"))
def _(of_means: Tensor, of_delta: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
    of_parts, of_scores = _rows.merge_backward(of_means.contiguous(), of_delta, *rest)
    return of_parts, of_delta.new_empty(0) if of_scores is None else of_scores


@torch.library.register_fake("foveate::vip_merge_backward")
def _(
    of_means: Tensor,
    of_delta: Tensor,
    chosen: Tensor,
    segments: Tensor,
    counts: Tensor,
    moved: Tensor | None,
    dtype: torch.dtype,
) -> tuple[Tensor, Tensor]:
    parts = len(chosen) * of_delta.shape[1]
    of_scores = of_delta.new_empty(0 if moved is None else len(chosen))
    return of_delta.new_empty(parts, of_delta.shape[2], dtype=dtype), of_scores


class _Scores(torch.autograd.Function):
    """Keeps q, k, the bias and some numbers per VIP token and head."""

    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> Tensor:
        scores, lse = torch.ops.foveate.vip_scores.default(*arguments)
        ctx.save_for_backward(lse, *arguments[:-3])
        ctx.options = arguments[-3:]
        return scores

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        lse, *inputs = ctx.saved_tensors
        dq, dk, d_bias = torch.ops.foveate.vip_scores_backward.default(
            grad, lse, *inputs, *ctx.options
        )
        return dq, dk, None if inputs[2] is None else d_bias, *[None] * 11


class _Split(torch.autograd.Function):
    """Takes the Δs' place in the chain of what reads and writes them; see `..rows`."""

    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> tuple[Tensor, Tensor, Tensor]:
        above, means, delta, chosen, segments, _ = arguments
        ctx.mark_dirty(delta)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(chosen, segments)
        ctx.above, ctx.means, ctx.shape = len(above), len(means), delta.shape
        rows, parts = torch.ops.foveate.vip_split.default(*arguments)
        ctx.rows = torch.empty_like(rows, device="meta")
        return rows, parts, delta

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, of_rows: Tensor | None, of_parts: Tensor | None, of_delta: Tensor | None
    ) -> tuple[Tensor | None, ...]:
        chosen, segments = ctx.saved_tensors
        if of_rows is None and of_parts is None:
            return None, None, of_delta, None, None, None
        if of_rows is None:
            of_rows = torch.zeros_like(ctx.rows, device=chosen.device)
        if of_delta is None:
            of_delta = of_rows.new_zeros(ctx.shape, dtype=torch.float32)
        of_delta = of_delta.contiguous()
        of_means = torch.ops.foveate.vip_split_backward.default(
            of_rows.contiguous(), of_parts, of_delta, chosen, segments, ctx.means
        )
        return of_rows[: ctx.above], of_means, of_delta, None, None, None


class _Merge(torch.autograd.Function):
    """Likewise. Scores get their gradient as if what parts moved by were multiplied by them."""

    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> tuple[Tensor, Tensor]:
        own, parts, delta, chosen, segments, counts, scores, moved = arguments
        ctx.mark_dirty(delta)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(chosen, segments, counts, moved)
        ctx.dtypes, ctx.means, ctx.shape = (own.dtype, parts.dtype), own.shape, delta.shape
        ctx.scores = None if scores is None else scores.shape
        return torch.ops.foveate.vip_merge.default(*arguments[:6]), delta

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, of_means: Tensor | None, of_delta: Tensor | None
    ) -> tuple[Tensor | None, ...]:
        chosen, segments, counts, moved = ctx.saved_tensors
        wide = {"dtype": torch.float32, "device": chosen.device}
        if of_means is None:
            of_means = torch.zeros(ctx.means, **wide)
        if of_delta is None:
            of_delta = torch.zeros(ctx.shape, **wide)
        of_delta = of_delta.contiguous()
        of_own, of_parts = ctx.dtypes
        of_parts, of_chosen = torch.ops.foveate.vip_merge_backward.default(
            of_means, of_delta, chosen, segments, counts, moved, of_parts
        )
        of_own = of_means.to(of_own, copy=True).index_fill_(0, chosen, 0)
        of_scores = None
        if ctx.scores is not None:
            of_scores = of_chosen.new_zeros(ctx.scores).index_copy_(0, chosen, of_chosen)
        return of_own, of_parts, of_delta, None, None, None, of_scores, None
