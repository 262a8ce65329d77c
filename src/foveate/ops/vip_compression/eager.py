"""The steps in plain torch: any device, in a layer as much memory as the rows that it sees."""

from collections.abc import Sequence

import torch
from torch import Tensor

from .rows import read_rows, write_rows


def build(tokens: Tensor, counts: Sequence[Tensor]) -> tuple[Tensor, list[Tensor]]:
    """Means of the coarsest segments, and the Δs of each level; see `..tree.build`."""
    wide = torch.promote_types(tokens.dtype, torch.float32)
    sums = tokens
    means: list[Tensor] = []
    deltas: list[Tensor] = []
    for count in reversed(counts[:-1]):
        parts = sums.view(len(count), len(sums) // max(1, len(count)), sums.shape[1])
        sums = parts.sum(1, dtype=wide)
        mean = sums / count.clamp(min=1)[:, None]
        below = means[0].view(parts.shape) if means else parts
        means.insert(0, mean)
        deltas.insert(0, mean[:, None] - below)
    return means[0], deltas


def spread(means: Tensor, delta: Tensor, dtype: torch.dtype | None) -> Tensor:
    """Rows of all parts, from their segments' `(segments, d)` and what they differ by."""
    return (means[:, None] - delta).flatten(0, 1).to(dtype or means.dtype)


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
    """Say what is seen once segments are chosen.

    Args:
        best: candidates that are split, `(s,)`, in any order.
        numbers: of the candidates among all segments of the level, `(c,)`; 0, 1, … if None.
        positions: of the rows above, the last of which are the candidates, `(a,)`.
        key_bias: log multiplicities of these rows, `(a,)`.
        part_positions: of all parts of the level's segments.
        part_bias: their log multiplicities.
        candidates: how many there are.
        ratio: parts of a segment.

    Returns:
        The candidates that are split and their numbers, ascending, both `(s,)`; positions and
        biases of all rows, `(a + s · ratio,)`. What is split is hidden: its bias is -inf.
    """
    chosen = best.sort().values
    segments = chosen if numbers is None else numbers[chosen]
    parts = (segments[:, None] * ratio + torch.arange(ratio, device=best.device)).flatten()
    hidden = key_bias.index_fill(0, chosen + (len(positions) - candidates), -torch.inf)
    return (
        chosen,
        segments,
        torch.cat([positions, part_positions[parts]]),
        torch.cat([hidden, part_bias[parts]]),
    )


def split(
    above: Tensor, means: Tensor, delta: Tensor, chosen: Tensor, segments: Tensor, deeper: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Read the parts of what is chosen.

    Args:
        above: rows of the layer so far, `(a, d)`.
        means: of the candidates, `(c, d)`, at least float32.
        delta: what all parts of the level differ by, `(segments, ratio, d)`.
        chosen: candidates that are split, `(s,)`.
        segments: their numbers among all segments, `(s,)`.
        deeper: whether the parts are candidates in turn.

    Returns:
        The rows above and, behind them, the parts, `(a + s · ratio, d)`; the parts as wide as the
        means, which count only if deeper; and the Δs to go on with.
    """
    differ, delta = read_rows(delta, segments)
    parts = (means.index_select(0, chosen)[:, None] - differ).flatten(0, 1)
    return torch.cat([above, parts.to(above.dtype)]), parts, delta


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
    """Write the parts of what was chosen.

    Args:
        own: new rows of the candidates, `(c, d)`.
        parts: of the parts of what is split, `(s · ratio, d)`.
        delta: the Δs, changed in place.
        chosen: candidates that are split, `(s,)`.
        segments: their numbers among all segments, `(s,)`.
        counts: tokens of all parts of the level, `(segments · ratio,)`.
        scores: of the candidates, `(c,)`.
        moved: what the parts moved by, `(s · ratio, d)`, if scores get a gradient from it.

    Returns:
        The means of the candidates `(c, d)`, in the dtype of the Δs: of what is split, the mean of
        its parts; and the Δs to go on with.
    """
    size = (len(chosen), delta.shape[1])
    parts = parts.to(delta.dtype).unflatten(0, size)
    if moved is not None:
        s = scores[chosen][:, None, None].to(parts.dtype)
        parts = parts + moved.to(parts.dtype).unflatten(0, size) * (s - s.detach())
    count = counts.view(delta.shape[:2]).index_select(0, segments)[:, :, None]
    mean = (parts * count).sum(1) / count.sum(1).clamp(min=1)
    means = own.to(delta.dtype).index_copy(0, chosen, mean)
    return means, write_rows(delta, segments, mean[:, None] - parts)
