"""The definition of relative attention: dense scores of all pairs, other sequences masked."""

from collections.abc import Sequence

import torch
from torch import Tensor

from foveate.ops._packed.reference import bias_of_pairs, masked_softmax, sequence_ids


def relative_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    bias: Tensor | None,
    key_bias: Tensor | None,
    q_positions: Tensor | None,
    k_positions: Tensor | None,
    q_lengths: Sequence[int],
    k_lengths: Sequence[int],
    causal: bool,
    max_distance: int,
    scale: float,
) -> Tensor:
    """Compute softmax attention of `(tokens, heads, head_dim)`; zero where a query sees no key."""
    q_positions = _from_zero(q_lengths, q.device) if q_positions is None else q_positions
    k_positions = _from_zero(k_lengths, k.device) if k_positions is None else k_positions
    distance = k_positions[None, :] - q_positions[:, None]
    scores = torch.einsum("ihd,jhd->hij", q, k) * scale
    if bias is not None:
        scores = scores + bias_of_pairs(bias, distance, max_distance, bidirectional=not causal)
    if key_bias is not None:
        scores = scores + key_bias
    mask = sequence_ids(q_lengths, q.device)[:, None] == sequence_ids(k_lengths, q.device)[None, :]
    if causal:
        mask = mask & (distance <= 0)
    return torch.einsum("hij,jhd->ihd", masked_softmax(scores, mask), v)


def _from_zero(lengths: Sequence[int], device: torch.device) -> Tensor:
    """Return the positions 0, 1, … in each of the packed sequences."""
    return torch.cat([torch.arange(0), *map(torch.arange, lengths)]).to(device)
