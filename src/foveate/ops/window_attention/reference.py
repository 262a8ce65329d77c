"""Window attention as it is defined: dense scores of all pairs, what is out of sight masked."""

from collections.abc import Sequence

import torch
from torch import Tensor

from foveate.ops.relative_attention.buckets import buckets

from .side import Side


def window_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    side: Side,
    bias: Tensor | None,
    hidden: Tensor | None,
    window: tuple[int, int],
    dilations: Sequence[int],
    lengths: Sequence[int],
    max_distance: int,
    scale: float,
) -> Tensor:
    """Softmax attention of `(n, heads, head_dim)` rows; zero where a query sees nothing."""
    row = torch.arange(len(q), device=q.device)
    distance = row[None, :] - row[:, None]
    (left, right), sequence = window, _sequence(lengths, q.device)
    step = torch.tensor(dilations, device=q.device)[:, None, None]
    seen = (distance % step == 0) & (distance >= -left * step) & (distance <= right * step)
    seen = seen & (sequence[:, None] == sequence)
    if hidden is not None:
        seen = seen & ~hidden
    scores = torch.einsum("ihd,jhd->hij", q, k) * scale
    if bias is not None:
        scores = scores + _at_distance(bias, distance, max_distance)

    side_scores = torch.einsum("ihd,ghd->hig", q, side.k) * scale
    side_seen = sequence[:, None] == _sequence(side.lengths, q.device)
    if side.bias is not None and side.positions is not None:
        starts = torch.tensor([0, *side.lengths], device=q.device).cumsum(0)
        side_row = torch.arange(len(side.k), device=q.device)
        place = side_row - starts[_sequence(side.lengths, q.device)]
        distance = place - side.positions[:, None]
        side_scores = side_scores + _at_distance(side.bias, distance, max_distance)

    scores = torch.cat([scores, side_scores], -1)
    scores = scores.masked_fill(
        ~torch.cat([seen, side_seen.expand(len(step), -1, -1)], -1), -torch.inf
    )
    blind = (scores == -torch.inf).all(-1, keepdim=True)
    weights = scores.masked_fill(blind, 0).softmax(-1).masked_fill(blind, 0)
    return torch.einsum("hij,jhd->ihd", weights, torch.cat([v, side.v]))


def _sequence(lengths: Sequence[int], device: torch.device) -> Tensor:
    """Number of the sequence that each packed row belongs to."""
    numbers = torch.arange(len(lengths), device=device)
    return numbers.repeat_interleave(torch.tensor(lengths, dtype=torch.long, device=device))


def _at_distance(table: Tensor, distance: Tensor, max_distance: int) -> Tensor:
    """Biases `(heads, …)` of distances `(…)`."""
    bucket = buckets(distance, len(table), max_distance, bidirectional=True)
    return table[bucket].movedim(-1, 0)
