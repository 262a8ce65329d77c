"""Relative attention as it is defined: dense scores of all pairs, foreign sequences masked."""

from collections.abc import Sequence

import torch
from torch import Tensor

from .buckets import buckets


def relative_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    bias: Tensor | None,
    q_positions: Tensor | None,
    k_positions: Tensor | None,
    q_lengths: Sequence[int],
    k_lengths: Sequence[int],
    key_bias: Tensor | None,
    causal: bool,
    max_distance: int,
    scale: float,
) -> Tensor:
    """Softmax attention of `(n, heads, head_dim)` rows; zero where a query sees no key."""
    q_positions = _from_zero(q_lengths, q.device) if q_positions is None else q_positions
    k_positions = _from_zero(k_lengths, k.device) if k_positions is None else k_positions
    distance = k_positions[None, :] - q_positions[:, None]
    scores = torch.einsum("ihd,jhd->hij", q, k) * scale
    if bias is not None:
        bucket = buckets(distance, len(bias), max_distance, bidirectional=not causal)
        scores = scores + bias[bucket].movedim(-1, 0)
    if key_bias is not None:
        scores = scores + key_bias
    q_sequence, k_sequence = _sequence(q_lengths, q.device), _sequence(k_lengths, q.device)
    seen = q_sequence[:, None] == k_sequence[None, :]
    if causal:
        seen = seen & (distance <= 0)
    scores = scores.masked_fill(~seen, -torch.inf)
    blind = (scores == -torch.inf).all(-1, keepdim=True)
    weights = scores.masked_fill(blind, 0).softmax(-1).masked_fill(blind, 0)
    return torch.einsum("hij,jhd->ihd", weights, v)


def _from_zero(lengths: Sequence[int], device: torch.device) -> Tensor:
    """Positions 0, 1, … in each of the packed sequences."""
    return torch.cat([torch.arange(0), *map(torch.arange, lengths)]).to(device)


def _sequence(lengths: Sequence[int], device: torch.device) -> Tensor:
    """Number of the sequence that each packed row belongs to."""
    numbers = torch.arange(len(lengths), device=device)
    return numbers.repeat_interleave(torch.tensor(lengths, dtype=torch.int64, device=device))
