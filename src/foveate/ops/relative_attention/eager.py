"""Relative attention in plain PyTorch: any device, linear memory, differentiable.

Sequences of equal lengths are attended together, as one group of `grouped_attention`.
"""

from collections.abc import Iterator, Sequence
from itertools import accumulate

import torch
from torch import Tensor

from foveate.ops._packed.buckets import bias_by_distance
from foveate.ops._packed.grouped_attention import Group, grouped_attention, sets_per_tile


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
    if bias is not None:
        bias = bias_by_distance(bias, max_distance, bidirectional=not causal)
    if causal:
        bias = _hide_later_keys(q.new_zeros(q.shape[1], 3) if bias is None else bias)
    groups = _SequenceGroups(q_lengths, k_lengths, q_positions, k_positions, q.device)
    return grouped_attention(q, k, v, bias, key_bias, groups, scale)


def _hide_later_keys(bias: Tensor) -> Tensor:
    """Set a bias by distance `(heads, 2·reach + 1)` to -inf where the key is after the query."""
    distance = torch.arange(bias.shape[1], device=bias.device) - bias.shape[1] // 2
    return bias.masked_fill(distance > 0, -torch.inf)


class _SequenceGroups:
    """Groups of packed sequences of equal lengths, as many in each as make a tile."""

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
        """Yield the groups; every query is in exactly one, and so is every key."""
        for (m, n), starts in self.starts.items():
            query = torch.arange(m, device=self.device)
            key = torch.arange(n, device=self.device).flip(0)
            for chunk in torch.tensor(starts, device=self.device).split(sets_per_tile(m, n)):
                queries, keys = chunk[:, :1] + query, chunk[:, 1:] + key
                yield Group(
                    queries,
                    keys,
                    _positions(self.q_positions, queries, query),
                    _positions(self.k_positions, keys, key),
                    diagonal=self.q_positions is None and self.k_positions is None,
                )


def _positions(positions: Tensor | None, tokens: Tensor, default: Tensor) -> Tensor:
    """Return the positions of the tokens; by default they count from 0 in each sequence."""
    return default.expand(tokens.shape) if positions is None else positions[tokens]
