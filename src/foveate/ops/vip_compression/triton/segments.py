# Triton's dialect: kernels' arguments have no types, compile-time constants are capitals.
# ruff: noqa: N803
# mypy: disable-error-code=no-untyped-def
"""Splitting segments into their parts before a layer, and merging the parts after it."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from foveate.ops._triton.launch import launch
from foveate.ops._triton.math import cdiv, next_power_of_2


def split(
    tokens: Tensor, means: Tensor, delta: Tensor, chosen: Tensor, segments: Tensor, keep_means: bool
) -> tuple[Tensor, Tensor]:
    """Append the parts of the chosen candidates to the tokens of a compressed sequence.

    Returns:
        The tokens and parts, `(tokens + parts, d)`, and the parts in the dtype of the means,
        `(parts, d)`, or `(0, d)` without `keep_means`.
    """
    num_chosen, ratio, width = len(chosen), *delta.shape[1:]
    new_tokens = tokens.new_empty(len(tokens) + num_chosen * ratio, width)
    parts = means.new_empty(num_chosen * ratio if keep_means else 0, width)
    if len(new_tokens):
        tensors = tokens, means, delta, chosen, segments, new_tokens, parts
        constants = keep_means, width, next_power_of_2(width)
        launch(_split, len(new_tokens), tensors, (), (len(tokens), ratio), constants)
    return new_tokens, parts


def split_backward(
    d_tokens: Tensor,
    d_parts: Tensor | None,
    d_delta: Tensor,
    chosen: Tensor,
    segments: Tensor,
    num_means: int,
) -> Tensor:
    """Return the gradient of the means `(means, d)`; that of the Δs is updated in place."""
    num_chosen, ratio, width = len(chosen), *d_delta.shape[1:]
    d_means = d_delta.new_zeros(num_means, width)
    if num_chosen:
        blocks, sizes = _tile_sizes(ratio, width)
        tensors = d_tokens, d_parts, d_delta, chosen, segments, d_means
        numbers = len(d_tokens) - num_chosen * ratio, ratio
        launch(_split_backward, num_chosen * blocks, tensors, (), numbers, sizes)
    return d_means


def merge(
    means: Tensor, parts: Tensor, delta: Tensor, chosen: Tensor, segments: Tensor, counts: Tensor
) -> Tensor:
    """Replace the means of split segments by those of their parts; the Δs change in place."""
    new_means = means.to(delta.dtype, copy=True)
    num_chosen, ratio, width = len(chosen), *delta.shape[1:]
    if num_chosen:
        blocks, sizes = _tile_sizes(ratio, width)
        tensors = parts, delta, chosen, segments, counts, new_means
        launch(_merge, num_chosen * blocks, tensors, (), (ratio,), sizes)
    return new_means


def merge_backward(
    d_means: Tensor,
    d_delta: Tensor,
    chosen: Tensor,
    segments: Tensor,
    counts: Tensor,
    dtype: torch.dtype,
) -> Tensor:
    """Return the gradient of the parts, and clear that of the chosen Δs.

    Args:
        d_means: Gradient of the means, `(c, d)`.
        d_delta: Gradient of the Δs, `(segments, ratio, d)`.
        chosen: Candidates that are split, `(s,)`.
        segments: Their indices among all segments, `(s,)`.
        counts: Tokens of all parts, `(segments · ratio,)`.
        dtype: Dtype of the parts and of their gradient.
    """
    num_chosen, ratio, width = len(chosen), *d_delta.shape[1:]
    d_parts = d_delta.new_empty(num_chosen * ratio, width, dtype=dtype)
    if num_chosen:
        blocks, sizes = _tile_sizes(ratio, width)
        tensors = d_means, d_delta, chosen, segments, counts, d_parts
        launch(_merge_backward, num_chosen * blocks, tensors, (), (ratio,), sizes)
    return d_parts


def _tile_sizes(ratio: int, width: int) -> tuple[int, tuple[int, int, int]]:
    """Return the programs of a segment, and its channels, padded parts and channels of a tile."""
    parts = next_power_of_2(max(1, ratio))  # the ratio is 0 if there are no segments
    block = min(next_power_of_2(width), max(16, 2048 // parts))
    return cdiv(width, block), (width, parts, block)


@triton.jit(do_not_specialize=("num_tokens", "ratio"))
def _split(
    tokens,
    means,
    delta,
    chosen,
    segments,
    new_tokens,
    parts,
    num_tokens,
    ratio,
    KEEP_MEANS: tl.constexpr,
    CHANNELS: tl.constexpr,
    WIDTH: tl.constexpr,
):
    token, channel = tl.program_id(0).to(tl.int64), tl.arange(0, WIDTH)
    real = channel < CHANNELS
    if token < num_tokens:
        values = tl.load(tokens + token * CHANNELS + channel, mask=real)
        tl.store(new_tokens + token * CHANNELS + channel, values, mask=real)
    else:
        part = token - num_tokens
        candidate = tl.load(chosen + part // ratio)
        index = tl.load(segments + part // ratio) * ratio + part % ratio
        value = tl.load(means + candidate * CHANNELS + channel, mask=real)
        value -= tl.load(delta + index * CHANNELS + channel, mask=real)
        target = new_tokens + token * CHANNELS + channel
        tl.store(target, value.to(new_tokens.dtype.element_ty), mask=real)
        if KEEP_MEANS:
            tl.store(parts + part * CHANNELS + channel, value, mask=real)


@triton.jit
def _program_tile(ratio, CHANNELS: tl.constexpr, PARTS: tl.constexpr, BLOCK: tl.constexpr):
    """A program's chosen segment, channels, and tile: offsets in the segment, and their mask."""
    index = (tl.program_id(0) // tl.cdiv(CHANNELS, BLOCK)).to(tl.int64)
    part = tl.arange(0, PARTS)
    channel = tl.program_id(0) % tl.cdiv(CHANNELS, BLOCK) * BLOCK + tl.arange(0, BLOCK)
    mask = (part < ratio)[:, None] & (channel < CHANNELS)[None, :]
    return index, channel, part[:, None] * CHANNELS + channel[None, :], mask


@triton.jit(do_not_specialize=("num_tokens", "ratio"))
def _split_backward(
    d_tokens,
    d_parts,
    d_delta,
    chosen,
    segments,
    d_means,
    num_tokens,
    ratio,
    CHANNELS: tl.constexpr,
    PARTS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    index, channel, offset, mask = _program_tile(ratio, CHANNELS, PARTS, BLOCK)
    source = d_tokens + (num_tokens + index * ratio) * CHANNELS
    grad = tl.load(source + offset, mask=mask, other=0.0).to(tl.float32)
    if d_parts is not None:
        grad += tl.load(d_parts + index * ratio * CHANNELS + offset, mask=mask, other=0.0)
    target = d_delta + tl.load(segments + index) * ratio * CHANNELS + offset
    new = tl.load(target, mask=mask, other=0.0) - grad
    tl.debug_barrier()  # another thread may still have to read what this one stores
    tl.store(target, new, mask=mask)
    d_mean = d_means + tl.load(chosen + index) * CHANNELS + channel
    tl.store(d_mean, tl.sum(grad, 0), mask=channel < CHANNELS)


@triton.jit(do_not_specialize=("ratio",))
def _merge(
    parts,
    delta,
    chosen,
    segments,
    counts,
    means,
    ratio,
    CHANNELS: tl.constexpr,
    PARTS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    index, channel, offset, mask = _program_tile(ratio, CHANNELS, PARTS, BLOCK)
    segment = tl.load(segments + index)
    source = parts + index * ratio * CHANNELS + offset
    values = tl.load(source, mask=mask, other=0.0).to(tl.float32)
    share = _shares(counts + segment * ratio, ratio, PARTS)
    mean = tl.sum(values * share[:, None], 0)
    tl.store(means + tl.load(chosen + index) * CHANNELS + channel, mean, mask=channel < CHANNELS)
    tl.store(delta + segment * ratio * CHANNELS + offset, mean[None, :] - values, mask=mask)


@triton.jit
def _shares(counts, ratio, PARTS: tl.constexpr):
    """Compute the share of each part in the mean of its segment."""
    part = tl.arange(0, PARTS)
    count = tl.load(counts + part, mask=part < ratio, other=0).to(tl.float32)
    return count / tl.maximum(tl.sum(count, 0), 1.0)


@triton.jit(do_not_specialize=("ratio",))
def _merge_backward(
    d_means,
    d_delta,
    chosen,
    segments,
    counts,
    d_parts,
    ratio,
    CHANNELS: tl.constexpr,
    PARTS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    index, channel, offset, mask = _program_tile(ratio, CHANNELS, PARTS, BLOCK)
    segment = tl.load(segments + index)
    source = d_delta + segment * ratio * CHANNELS + offset
    d_deltas = tl.load(source, mask=mask, other=0.0)
    pointer = d_means + tl.load(chosen + index) * CHANNELS + channel
    d_mean = tl.load(pointer, mask=channel < CHANNELS, other=0.0) + tl.sum(d_deltas, 0)
    share = _shares(counts + segment * ratio, ratio, PARTS)
    grad = share[:, None] * d_mean[None, :] - d_deltas
    first = index * ratio * CHANNELS
    tl.store(d_parts + first + offset, grad.to(d_parts.dtype.element_ty), mask=mask)
    tl.debug_barrier()  # another thread may still have to read what this one clears
    tl.store(source, tl.zeros([PARTS, BLOCK], tl.float32), mask=mask)
