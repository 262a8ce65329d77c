"""The definition of window attention: dense scores of all pairs, masked outside the windows."""

from collections.abc import Sequence

import torch
from torch import Tensor

from foveate.ops._packed.reference import bias_of_pairs, masked_softmax, sequence_ids

from .global_attention import GlobalKeysValues


def window_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    global_keys_values: GlobalKeysValues,
    bias: Tensor | None,
    masked_keys: Tensor | None,
    window: tuple[int, int],
    lengths: Sequence[int],
    max_distance: int,
    scale: float,
) -> Tensor:
    """Compute softmax attention of `(tokens, heads, head_dim)`; zero where a query sees no key."""
    token = torch.arange(len(q), device=q.device)
    distance = token[None, :] - token[:, None]
    (left, right), sequence = window, sequence_ids(lengths, q.device)
    mask = (distance >= -left) & (distance <= right) & (sequence[:, None] == sequence)
    if masked_keys is not None:
        mask = mask & ~masked_keys
    scores = torch.einsum("ihd,jhd->hij", q, k) * scale
    if bias is not None:
        scores = scores + bias_of_pairs(bias, distance, max_distance, bidirectional=True)

    kv = global_keys_values
    global_scores = torch.einsum("ihd,ghd->hig", q, kv.k) * scale
    global_sequence = sequence_ids(kv.lengths, q.device)
    global_mask = sequence[:, None] == global_sequence
    if kv.masked is not None:
        global_mask = global_mask & ~kv.masked
    if kv.bias is not None and kv.positions is not None:
        starts = torch.tensor([0, *kv.lengths], device=q.device).cumsum(0)
        position = torch.arange(len(kv.k), device=q.device) - starts[global_sequence]
        distance = position - kv.positions[:, None]
        global_scores = global_scores + bias_of_pairs(
            kv.bias, distance, max_distance, bidirectional=True
        )

    scores = torch.cat([scores, global_scores], -1)
    mask = torch.cat([mask, global_mask], -1)
    return torch.einsum("hij,jhd->ihd", masked_softmax(scores, mask), torch.cat([v, kv.v]))
