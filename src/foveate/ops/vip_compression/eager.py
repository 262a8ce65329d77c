"""Splitting and merging segments in plain PyTorch, on any device.

A layer needs as much memory as the tokens it sees. Plain indexing of the Δs would cost as much as
all of them in every backward pass: the gradient of a read is a buffer of zeros with a few other
elements, and that of a write a copy with a few zeros. Here reads and writes form a chain, each
taking the buffer's place, so that one gradient goes back along it and only the elements concerned
are changed, in place. Such a chain can be differentiated only once.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from foveate.ops.differentiation import once_differentiable
from foveate.ops.precision import accumulation_dtype


def build(tokens: Tensor, counts: Sequence[Tensor]) -> tuple[Tensor, list[Tensor]]:
    """Compute the coarsest means and the Δs of each level; see `SegmentTree.from_tokens`."""
    sum_dtype = accumulation_dtype(tokens.dtype)
    sums = tokens
    means: list[Tensor] = []
    deltas: list[Tensor] = []
    for count in reversed(counts[:-1]):
        parts = sums.view(len(count), len(sums) // max(1, len(count)), sums.shape[1])
        sums = parts.sum(1, dtype=sum_dtype)
        mean = sums / count.clamp(min=1)[:, None]
        part_means = means[0].view(parts.shape) if means else parts
        means.insert(0, mean)
        deltas.insert(0, mean[:, None] - part_means)
    return means[0], deltas


def spread(means: Tensor, delta: Tensor, dtype: torch.dtype | None) -> Tensor:
    """Compute all parts of a level from the means of its segments `(segments, d)` and the Δs."""
    return (means[:, None] - delta).flatten(0, 1).to(dtype or means.dtype)


def select(
    best: Tensor,
    candidate_segments: Tensor | None,
    positions: Tensor,
    key_bias: Tensor,
    part_positions: Tensor,
    part_bias: Tensor,
    num_candidates: int,
    ratio: int,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Sort the chosen candidates, and append the positions and biases of their parts.

    Args:
        best: Candidates to split, `(s,)`, in any order.
        candidate_segments: Index of each candidate among all segments of the level, `(c,)`; 0, 1, …
            if None.
        positions: Positions of the compressed tokens so far, the last of which are the candidates,
            `(t,)`.
        key_bias: Their log multiplicities, `(t,)`.
        part_positions: Positions of all parts of the level's segments.
        part_bias: Their log multiplicities.
        num_candidates: The number of candidates.
        ratio: Parts of a segment.

    Returns:
        The chosen candidates and their indices among all segments, ascending, `(s,)` each; and the
        positions and biases of all tokens, `(t + s · ratio,)`. The bias of a segment that is split
        is -inf, so that it is not attended to.
    """
    chosen = best.sort().values
    segments = chosen if candidate_segments is None else candidate_segments[chosen]
    parts = (segments[:, None] * ratio + torch.arange(ratio, device=best.device)).flatten()
    tokens = chosen + (len(positions) - num_candidates)
    return (
        chosen,
        segments,
        torch.cat([positions, part_positions[parts]]),
        torch.cat([key_bias.index_fill(0, tokens, -torch.inf), part_bias[parts]]),
    )


def split(
    tokens: Tensor,
    means: Tensor,
    delta: Tensor,
    chosen: Tensor,
    segments: Tensor,
    keep_means: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """Append the parts of the chosen candidates to the compressed tokens.

    Args:
        tokens: The compressed tokens so far, `(t, d)`.
        means: Means of the candidates, `(c, d)`, at least float32.
        delta: The Δs of all parts of the level, `(segments, ratio, d)`.
        chosen: Candidates to split, `(s,)`.
        segments: Their indices among all segments, `(s,)`.
        keep_means: Whether the parts are needed in the precision of the means, because they are
            candidates in turn.

    Returns:
        The tokens followed by the parts, `(t + s · ratio, d)`; the parts in the dtype of the means,
        valid with `keep_means`; and the Δs to use from then on.
    """
    part_deltas, delta = _read(delta, segments)
    parts = (means.index_select(0, chosen)[:, None] - part_deltas).flatten(0, 1)
    return torch.cat([tokens, parts.to(tokens.dtype)]), parts, delta


def merge(
    means: Tensor,
    parts: Tensor,
    delta: Tensor,
    chosen: Tensor,
    segments: Tensor,
    counts: Tensor,
) -> tuple[Tensor, Tensor]:
    """Write the parts of the chosen candidates to the Δs.

    Args:
        means: The new candidates, `(c, d)`.
        parts: The new parts of the chosen ones, `(s · ratio, d)`.
        delta: The Δs, changed in place.
        chosen: Candidates that are split, `(s,)`.
        segments: Their indices among all segments, `(s,)`.
        counts: Tokens of all parts of the level, `(segments · ratio,)`.

    Returns:
        The means of the candidates `(c, d)` in the dtype of the Δs, that of a split segment from
        its parts; and the Δs to use from then on.
    """
    parts = parts.to(delta.dtype).unflatten(0, (len(chosen), delta.shape[1]))
    count = counts.view(delta.shape[:2]).index_select(0, segments)[:, :, None]
    part_means = (parts * count).sum(1) / count.sum(1).clamp(min=1)
    new_means = means.to(delta.dtype).index_copy(0, chosen, part_means)
    return new_means, _write(delta, segments, part_means[:, None] - parts)


def _read(buffer: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
    """Copy `buffer[index]`, and return it with the buffer to use from then on."""
    if not (torch.is_grad_enabled() and buffer.requires_grad):
        return buffer.index_select(0, index), buffer
    values, buffer = _Read.apply(buffer, index)
    return values, buffer


def _write(buffer: Tensor, index: Tensor, values: Tensor) -> Tensor:
    """Overwrite `buffer[index]` in place, and return the buffer to use from then on.

    The index must not have duplicates.
    """
    if not torch.is_grad_enabled() or not (buffer.requires_grad or values.requires_grad):
        return buffer.index_copy_(0, index, values)
    buffer = _Write.apply(buffer, index, values)
    return buffer


class _Read(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, buffer: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
        ctx.mark_dirty(buffer)  # it is passed on as an output
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(index)
        ctx.shape = buffer.shape
        return buffer.index_select(0, index), buffer

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, d_values: Tensor | None, d_buffer: Tensor | None
    ) -> tuple[Tensor | None, None]:
        (index,) = ctx.saved_tensors
        if d_values is None:
            return d_buffer, None
        if d_buffer is None:
            d_buffer = d_values.new_zeros(ctx.shape)
        return d_buffer.index_add_(0, index, d_values), None


class _Write(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, buffer: Tensor, index: Tensor, values: Tensor) -> Tensor:
        ctx.mark_dirty(buffer)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(index)
        return buffer.index_copy_(0, index, values)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_buffer: Tensor | None) -> tuple[Tensor | None, None, Tensor | None]:
        if d_buffer is None:
            return None, None, None
        (index,) = ctx.saved_tensors
        d_values = d_buffer.index_select(0, index)
        return d_buffer.index_fill_(0, index, 0), None, d_values
