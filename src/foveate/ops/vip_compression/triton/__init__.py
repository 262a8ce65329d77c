"""VIP compression on the GPU, as torch ops: scoring, selecting, splitting, merging segments."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from foveate.ops._triton.library import define_op, new_or_empty, or_empty
from foveate.ops._triton.math import adjacent
from foveate.ops.differentiation import once_differentiable

from . import scores as _scores
from . import scores_backward as _scores_backward
from . import segments as _segments
from . import select as _select
from .score_tiles import ScoreInputs, num_parts

__all__ = ["build", "merge", "select", "split", "spread", "vip_scores"]


def vip_scores(
    q: Tensor,
    k: Tensor,
    inputs: ScoreInputs,
    max_vips: int,
    max_candidates: int,
    scale: float,
) -> Tensor:
    """Compute the scores of candidates, as `foveate.ops.vip_compression.vip_scores` defines them.

    Args:
        q: Queries `(n_vips, heads, head_dim)`, float16, bfloat16 or float32, any strides.
        k: Keys `(n_keys, heads, head_dim)`, like q.
        inputs: Positions, packing and biases.
        max_vips: The most VIP tokens of a sequence.
        max_candidates: The most candidates of a sequence.
        scale: Factor on the products.
    """
    arguments = q, k, *inputs, max_vips, max_candidates, scale
    scores: Tensor
    if torch.is_grad_enabled():
        scores = _Scores.apply(*arguments)
    else:
        scores, _ = _scores_op(*arguments)
    return scores


def build(tokens: Tensor, counts: Sequence[Tensor]) -> tuple[Tensor, list[Tensor]]:
    """Merge all segments of each level, from the finest up; see `SegmentTree.from_tokens`."""
    means = tokens.contiguous()
    deltas: list[Tensor] = []
    for finer, count in pairwise(reversed(counts)):
        shape = len(count), len(finer) // max(1, len(count)), tokens.shape[1]
        delta = torch.empty(shape, dtype=torch.float32, device=tokens.device)
        old_means = delta.new_empty(shape[::2])  # all are replaced
        all_segments = torch.arange(len(count), device=tokens.device)
        means, delta = _Merge.apply(old_means, means, delta, all_segments, all_segments, finer)
        deltas.insert(0, delta)
    return means, deltas


def spread(means: Tensor, delta: Tensor, dtype: torch.dtype | None) -> Tensor:
    """Split all segments; see `foveate.ops.vip_compression.eager`."""
    all_segments = torch.arange(len(delta), device=delta.device)
    no_tokens = means.new_empty(0, means.shape[1], dtype=dtype)
    parts: Tensor = _Split.apply(no_tokens, means, delta, all_segments, all_segments, False)[0]
    return parts


def split(
    tokens: Tensor, means: Tensor, delta: Tensor, chosen: Tensor, segments: Tensor, keep_means: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Append the parts of the chosen candidates; see `foveate.ops.vip_compression.eager`."""
    new_tokens, parts, delta = _Split.apply(
        tokens.contiguous(), means, delta, chosen, segments, keep_means
    )
    return new_tokens, parts, delta


def merge(
    means: Tensor,
    parts: Tensor,
    delta: Tensor,
    chosen: Tensor,
    segments: Tensor,
    counts: Tensor,
) -> tuple[Tensor, Tensor]:
    """Write the parts of the chosen candidates; see `foveate.ops.vip_compression.eager`."""
    new_means, delta = _Merge.apply(means, parts.contiguous(), delta, chosen, segments, counts)
    return new_means, delta


_SCORE_INPUTS = (
    "Tensor q_positions, Tensor k_positions, Tensor vip_weights, Tensor key_bias, Tensor? bias, "
    "Tensor q_starts, Tensor q_counts, Tensor k_starts, Tensor k_counts, "
    "SymInt max_vips, SymInt max_candidates, float scale"
)


def _fake_scores(q: Tensor, k: Tensor, *inputs: Any) -> tuple[Tensor, Tensor]:
    shape = num_parts(inputs[-2]), q.shape[1], len(q)
    return k.new_empty(len(k), dtype=torch.float32), k.new_empty(shape, dtype=torch.float32)


@define_op(
    f"vip_scores(Tensor q, Tensor k, {_SCORE_INPUTS}) -> (Tensor, Tensor)", fake=_fake_scores
)
def _scores_op(q: Tensor, k: Tensor, *inputs: Any) -> tuple[Tensor, Tensor]:
    return _scores.forward(adjacent(q), adjacent(k), ScoreInputs(*inputs[:-3]), *inputs[-3:])


def _fake_scores_backward(
    grad: Tensor, lse: Tensor, q: Tensor, k: Tensor, *inputs: Any
) -> tuple[Tensor, ...]:
    bias = ScoreInputs(*inputs[:-3]).bias
    return q.new_empty(q.shape), k.new_empty(k.shape), new_or_empty(bias, q)


@define_op(
    f"vip_scores_backward(Tensor grad, Tensor lse, Tensor q, Tensor k, {_SCORE_INPUTS})"
    " -> (Tensor, Tensor, Tensor)",
    fake=_fake_scores_backward,
)
def _scores_backward_op(
    grad: Tensor, lse: Tensor, q: Tensor, k: Tensor, *arguments: Any
) -> tuple[Tensor, ...]:
    inputs, q, k = ScoreInputs(*arguments[:-3]), adjacent(q), adjacent(k)
    dq, dk, d_bias = _scores_backward.backward(
        grad.contiguous(), q, k, lse, inputs, *arguments[-3:]
    )
    if inputs.bias is not None and d_bias is not None:
        d_bias = d_bias.to(inputs.bias.dtype)
    return dq, dk, or_empty(d_bias, q)


def _fake_select(
    best: Tensor, candidate_segments: Tensor | None, positions: Tensor, *rest: Any
) -> tuple[Tensor, ...]:
    new_positions = positions.new_empty(len(positions) + len(best) * rest[-1])
    new_bias = torch.empty_like(new_positions, dtype=torch.float32)
    return torch.empty_like(best), torch.empty_like(best), new_positions, new_bias


select = define_op(
    "vip_select(Tensor best, Tensor? candidate_segments, Tensor positions, Tensor key_bias, "
    "Tensor part_positions, Tensor part_bias, SymInt num_candidates, SymInt ratio)"
    " -> (Tensor, Tensor, Tensor, Tensor)",
    fake=_fake_select,
)(_select.select)


def _fake_split(
    tokens: Tensor, means: Tensor, delta: Tensor, chosen: Tensor, segments: Tensor, keep_means: bool
) -> tuple[Tensor, Tensor]:
    num_parts = len(chosen) * delta.shape[1]
    new_tokens = tokens.new_empty(len(tokens) + num_parts, tokens.shape[1])
    return new_tokens, means.new_empty(num_parts if keep_means else 0, means.shape[1])


_split_op = define_op(
    "vip_split(Tensor tokens, Tensor means, Tensor delta, Tensor chosen, Tensor segments, "
    "bool keep_means) -> (Tensor, Tensor)",
    fake=_fake_split,
)(_segments.split)

_split_backward_op = define_op(
    "vip_split_backward(Tensor d_tokens, Tensor? d_parts, Tensor(a!) d_delta, Tensor chosen, "
    "Tensor segments, SymInt num_means) -> Tensor",
    fake=lambda _, __, d_delta, ___, ____, num_means: d_delta.new_empty(
        num_means, d_delta.shape[2]
    ),
)(_segments.split_backward)

_merge_op = define_op(
    "vip_merge(Tensor means, Tensor parts, Tensor(a!) delta, Tensor chosen, Tensor segments, "
    "Tensor counts) -> Tensor",
    fake=lambda means, _, delta, *__: torch.empty_like(means, dtype=delta.dtype),
)(_segments.merge)


def _fake_merge_backward(
    d_means: Tensor,
    d_delta: Tensor,
    chosen: Tensor,
    segments: Tensor,
    counts: Tensor,
    dtype: torch.dtype,
) -> Tensor:
    num_parts = len(chosen) * d_delta.shape[1]
    return d_delta.new_empty(num_parts, d_delta.shape[2], dtype=dtype)


_merge_backward_op = define_op(
    "vip_merge_backward(Tensor d_means, Tensor(a!) d_delta, Tensor chosen, Tensor segments, "
    "Tensor counts, ScalarType dtype) -> Tensor",
    fake=_fake_merge_backward,
)(_segments.merge_backward)


class _Scores(torch.autograd.Function):
    """Saves q, k, the bias, and log-sum-exps per VIP token, head and part."""

    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> Tensor:
        scores: Tensor
        scores, lse = _scores_op(*arguments)
        ctx.save_for_backward(lse, *arguments[:-3])
        ctx.options = arguments[-3:]
        return scores

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        lse, q, k, *inputs = ctx.saved_tensors
        dq, dk, d_bias = _scores_backward_op(grad, lse, q, k, *inputs, *ctx.options)
        has_bias = ScoreInputs(*inputs).bias is not None
        d_inputs = [d_bias if has_bias and name == "bias" else None for name in ScoreInputs._fields]
        return dq, dk, *d_inputs, None, None, None


class _Split(torch.autograd.Function):
    """Passes the Δs on, a link of the chain of reads and writes; see `..eager`."""

    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> tuple[Tensor, Tensor, Tensor]:
        tokens, means, delta, chosen, segments, _ = arguments
        ctx.mark_dirty(delta)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(chosen, segments)
        ctx.num_tokens, ctx.num_means, ctx.shape = len(tokens), len(means), delta.shape
        new_tokens, parts = _split_op(*arguments)
        ctx.new_tokens = torch.empty_like(new_tokens, device="meta")
        return new_tokens, parts, delta

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, d_tokens: Tensor | None, d_parts: Tensor | None, d_delta: Tensor | None
    ) -> tuple[Tensor | None, ...]:
        chosen, segments = ctx.saved_tensors
        if d_tokens is None and d_parts is None:
            return None, None, d_delta, None, None, None
        if d_tokens is None:
            d_tokens = torch.zeros_like(ctx.new_tokens, device=chosen.device)
        if d_delta is None:
            d_delta = d_tokens.new_zeros(ctx.shape, dtype=torch.float32)
        d_delta = d_delta.contiguous()
        d_means = _split_backward_op(
            d_tokens.contiguous(), d_parts, d_delta, chosen, segments, ctx.num_means
        )
        return d_tokens[: ctx.num_tokens], d_means, d_delta, None, None, None


class _Merge(torch.autograd.Function):
    """Another link of the chain."""

    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> tuple[Tensor, Tensor]:
        means, parts, delta, chosen, segments, counts = arguments
        ctx.mark_dirty(delta)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(chosen, segments, counts)
        ctx.dtypes, ctx.means_shape = (means.dtype, parts.dtype), means.shape
        ctx.shape = delta.shape
        return _merge_op(*arguments), delta

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, d_means: Tensor | None, d_delta: Tensor | None
    ) -> tuple[Tensor | None, ...]:
        chosen, segments, counts = ctx.saved_tensors
        options = {"dtype": torch.float32, "device": chosen.device}
        if d_means is None:
            d_means = torch.zeros(ctx.means_shape, **options)
        if d_delta is None:
            d_delta = torch.zeros(ctx.shape, **options)
        d_delta = d_delta.contiguous()
        means_dtype, parts_dtype = ctx.dtypes
        d_parts = _merge_backward_op(
            d_means.contiguous(), d_delta, chosen, segments, counts, parts_dtype
        )
        d_old_means = d_means.to(means_dtype, copy=True).index_fill_(0, chosen, 0)
        return d_old_means, d_parts, d_delta, None, None, None
