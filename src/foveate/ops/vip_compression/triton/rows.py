# Triton's dialect: kernels' arguments have no types, compile-time constants are capitals.
# ruff: noqa: N803
# mypy: disable-error-code=no-untyped-def
"""Rows of segments that are split: read from the tree before a layer, written to it after."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from foveate.ops._triton.launch import launch


def split(
    above: Tensor, means: Tensor, delta: Tensor, chosen: Tensor, segments: Tensor, deeper: bool
) -> tuple[Tensor, Tensor]:
    """Rows above and, behind them, those of parts; the parts again as wide as the means if deeper.

    Returns:
        `(above + parts, d)` and `(parts, d)`, or `(0, d)` in place of the second.
    """
    count, ratio, width = len(chosen), *delta.shape[1:]
    rows = above.new_empty(len(above) + count * ratio, width)
    parts = means.new_empty(count * ratio if deeper else 0, width)
    if len(rows):
        launch(
            *(_split, len(rows), (above, means, delta, chosen, segments, rows, parts), ()),
            *((len(above), ratio), (deeper, width, triton.next_power_of_2(width))),
        )
    return rows, parts


def split_backward(
    of_rows: Tensor,
    of_parts: Tensor | None,
    of_delta: Tensor,
    chosen: Tensor,
    segments: Tensor,
    means: int,
) -> Tensor:
    """Gradient of the means `(means, d)`; that of the Δs is changed in place."""
    count, ratio, width = len(chosen), *of_delta.shape[1:]
    of_means = of_delta.new_zeros(means, width)
    if count:
        blocks, tile = _tile(ratio, width)
        tensors = of_rows, of_parts, of_delta, chosen, segments, of_means
        launch(
            *(_split_backward, count * blocks, tensors, ()),
            *((len(of_rows) - count * ratio, ratio), tile),
        )
    return of_means


def merge(
    own: Tensor, parts: Tensor, delta: Tensor, chosen: Tensor, segments: Tensor, counts: Tensor
) -> Tensor:
    """Rows as wide as the Δs, those that are split the means of their parts; Δs change in place."""
    means = own.to(delta.dtype, copy=True)
    count, ratio, width = len(chosen), *delta.shape[1:]
    if count:
        blocks, tile = _tile(ratio, width)
        tensors = parts, delta, chosen, segments, counts, means
        launch(_merge, count * blocks, tensors, (), (ratio,), tile)
    return means


def merge_backward(
    of_means: Tensor,
    of_delta: Tensor,
    chosen: Tensor,
    segments: Tensor,
    counts: Tensor,
    moved: Tensor | None,
    dtype: torch.dtype,
) -> tuple[Tensor, Tensor | None]:
    """Gradient of the parts, in a dtype, and of the scores of what is split; zeros that of its Δs.

    Args:
        of_means: `(c, d)`.
        of_delta: `(segments, ratio, d)`.
        chosen: `(s,)`.
        segments: `(s,)`.
        counts: tokens of all parts, `(segments · ratio,)`.
        moved: what the parts moved by, `(s · ratio, d)`, where scores need a gradient.
        dtype: of the parts.
    """
    count, ratio, width = len(chosen), *of_delta.shape[1:]
    of_parts = of_delta.new_empty(count * ratio, width, dtype=dtype)
    blocks, tile = _tile(ratio, width)
    of_scores = None if moved is None else of_delta.new_empty(count, blocks)
    if count:
        tensors = of_means, of_delta, chosen, segments, counts, moved, of_parts, of_scores
        launch(_merge_backward, count * blocks, tensors, (), (ratio,), tile)
    return of_parts, None if of_scores is None else of_scores.sum(1)


def _tile(ratio: int, width: int) -> tuple[int, tuple[int, int, int]]:
    """Programs of a segment, and the sizes of their tiles: channels, parts, channels at once."""
    parts = triton.next_power_of_2(max(1, ratio))  # it is 0 where there are no segments
    block = min(triton.next_power_of_2(width), max(16, 2048 // parts))
    return triton.cdiv(width, block), (width, parts, block)


@triton.jit(do_not_specialize=("above", "ratio"))
def _split(
    above_rows,
    means,
    delta,
    chosen,
    segments,
    rows,
    parts,
    above,
    ratio,
    DEEPER: tl.constexpr,
    CHANNELS: tl.constexpr,
    WIDTH: tl.constexpr,
):
    row, channel = tl.program_id(0).to(tl.int64), tl.arange(0, WIDTH)
    there = channel < CHANNELS
    if row < above:
        values = tl.load(above_rows + row * CHANNELS + channel, mask=there)
        tl.store(rows + row * CHANNELS + channel, values, mask=there)
    else:
        part = row - above
        mean = tl.load(chosen + part // ratio)
        place = tl.load(segments + part // ratio) * ratio + part % ratio
        own = tl.load(means + mean * CHANNELS + channel, mask=there)
        own -= tl.load(delta + place * CHANNELS + channel, mask=there)
        tl.store(rows + row * CHANNELS + channel, own.to(rows.dtype.element_ty), mask=there)
        if DEEPER:
            tl.store(parts + part * CHANNELS + channel, own, mask=there)


@triton.jit
def _places(ratio, CHANNELS: tl.constexpr, PARTS: tl.constexpr, BLOCK: tl.constexpr):
    """A tile of the parts of one segment: places among its values, and where there are any."""
    part = tl.arange(0, PARTS)
    channel = tl.program_id(0) % tl.cdiv(CHANNELS, BLOCK) * BLOCK + tl.arange(0, BLOCK)
    inside = (part < ratio)[:, None] & (channel < CHANNELS)[None, :]
    return channel, part[:, None] * CHANNELS + channel[None, :], inside


@triton.jit(do_not_specialize=("above", "ratio"))
def _split_backward(
    of_rows,
    of_parts,
    of_delta,
    chosen,
    segments,
    of_means,
    above,
    ratio,
    CHANNELS: tl.constexpr,
    PARTS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    index = (tl.program_id(0) // tl.cdiv(CHANNELS, BLOCK)).to(tl.int64)
    channel, place, inside = _places(ratio, CHANNELS, PARTS, BLOCK)
    source = of_rows + (above + index * ratio) * CHANNELS
    grad = tl.load(source + place, mask=inside, other=0.0).to(tl.float32)
    if of_parts is not None:
        grad += tl.load(of_parts + index * ratio * CHANNELS + place, mask=inside, other=0.0)
    target = of_delta + tl.load(segments + index) * ratio * CHANNELS + place
    moved = tl.load(target, mask=inside, other=0.0) - grad
    tl.debug_barrier()  # what one thread stores, another may have to read
    tl.store(target, moved, mask=inside)
    mean = of_means + tl.load(chosen + index) * CHANNELS + channel
    tl.store(mean, tl.sum(grad, 0), mask=channel < CHANNELS)


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
    index = (tl.program_id(0) // tl.cdiv(CHANNELS, BLOCK)).to(tl.int64)
    segment = tl.load(segments + index)
    channel, place, inside = _places(ratio, CHANNELS, PARTS, BLOCK)
    own = tl.load(parts + index * ratio * CHANNELS + place, mask=inside, other=0.0).to(tl.float32)
    weight = _weights(counts + segment * ratio, ratio, PARTS)
    mean = tl.sum(own * weight[:, None], 0)
    tl.store(means + tl.load(chosen + index) * CHANNELS + channel, mean, mask=channel < CHANNELS)
    tl.store(delta + segment * ratio * CHANNELS + place, mean[None, :] - own, mask=inside)


@triton.jit
def _weights(counts, ratio, PARTS: tl.constexpr):
    """Share of each part in its segment's mean."""
    part = tl.arange(0, PARTS)
    count = tl.load(counts + part, mask=part < ratio, other=0).to(tl.float32)
    return count / tl.maximum(tl.sum(count, 0), 1.0)


@triton.jit(do_not_specialize=("ratio",))
def _merge_backward(
    of_means,
    of_delta,
    chosen,
    segments,
    counts,
    moved,
    of_parts,
    of_scores,
    ratio,
    CHANNELS: tl.constexpr,
    PARTS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    index = (tl.program_id(0) // tl.cdiv(CHANNELS, BLOCK)).to(tl.int64)
    segment = tl.load(segments + index)
    channel, place, inside = _places(ratio, CHANNELS, PARTS, BLOCK)
    source = of_delta + segment * ratio * CHANNELS + place
    of_own = tl.load(source, mask=inside, other=0.0)
    mean = of_means + tl.load(chosen + index) * CHANNELS + channel
    of_mean = tl.load(mean, mask=channel < CHANNELS, other=0.0) + tl.sum(of_own, 0)
    weight = _weights(counts + segment * ratio, ratio, PARTS)
    grad = weight[:, None] * of_mean[None, :] - of_own
    first = index * ratio * CHANNELS
    tl.store(of_parts + first + place, grad.to(of_parts.dtype.element_ty), mask=inside)
    if moved is not None:
        by = tl.load(moved + first + place, mask=inside, other=0.0).to(tl.float32)
        share = tl.sum(tl.sum(grad * by, 1), 0)
        tl.store(of_scores + tl.program_id(0), share)
    tl.debug_barrier()  # what one thread clears, another may have to read
    tl.store(source, tl.zeros([PARTS, BLOCK], tl.float32), mask=inside)
