"""Scores of segments: how much the VIP tokens attend to them (VCC, 6.2.4)."""

from typing import NamedTuple

import torch
from torch import Tensor

from foveate.ops.backends import choose
from foveate.ops.precision import accumulation_dtype

from .layout import CompressionLayout, PackedLengths

_MAX_WEIGHTS = 1 << 28
"""Attention weights that are materialized at a time, unless one VIP token has more."""


class CandidateSegments(NamedTuple):
    """The segments of a level that are compressed tokens, of all sequences concatenated.

    Attributes:
        means: `(c, d)`, in the dtype of the VIP tokens.
        positions: `(c,)`, rounded means of their tokens' positions.
        key_bias: `(c,)`, logarithm of their numbers of tokens; -inf for an empty segment.
        counts: The number of candidates of each sequence.
    """

    means: Tensor
    positions: Tensor
    key_bias: Tensor
    counts: PackedLengths


def vip_scores(
    q: Tensor,
    k: Tensor,
    layout: CompressionLayout,
    candidates: CandidateSegments,
    *,
    bias: Tensor | None = None,
    scale: float = 1.0,
    backend: str | None = None,
) -> Tensor:
    """Average the softmax attention of VIP tokens to their sequence's candidates.

    The average is over the VIP tokens of a sequence and over the heads.

    Args:
        q: Queries of the VIP tokens, `(n_p, heads, head_dim)`.
        k: Keys of the candidates, `(c, heads, head_dim)`.
        layout: Layout of the batch.
        candidates: The segments that are attended to, each weighted by its number of tokens.
        bias: T5's bias by distance, `(heads, 2·reach + 1)`, as
            `foveate.ops.relative_attention.bias_by_distance` computes it, or None.
        scale: Factor on the products; T5 uses 1.
        backend: See `compress`.

    Returns:
        `(c,)`, at least float32; the scores of a sequence sum to 1.
    """
    vips, keys = layout.vip_counts, candidates.counts
    if choose(backend, q) == "triton":
        from . import triton as _triton
        from .triton.score_tiles import ScoreInputs

        inputs = ScoreInputs(
            q_positions=layout.vip_positions,
            k_positions=candidates.positions,
            vip_weights=layout.vip_weights,
            key_bias=candidates.key_bias,
            bias=bias,
            q_starts=vips.starts,
            q_counts=vips.lengths_tensor,
            k_starts=keys.starts,
            k_counts=keys.lengths_tensor,
        )
        return _triton.vip_scores(q, k, inputs, vips.longest, keys.longest, scale)
    dtype = accumulation_dtype(q.dtype)
    q, k = vips.pad(q.to(dtype) * scale), keys.pad(k.to(dtype))
    q_positions, k_positions = vips.pad(layout.vip_positions), keys.pad(candidates.positions)
    vip_weights = vips.pad(layout.vip_weights.to(dtype))
    key_bias = keys.pad(candidates.key_bias.to(dtype))
    if vips.padding is not None:
        vip_weights = vip_weights.masked_fill(vips.padding, 0)
    if keys.padding is not None:
        key_bias = key_bias.masked_fill(keys.padding, -torch.inf)
    key_bias = key_bias.clamp(min=torch.finfo(dtype).min / 2)  # a sequence may have no candidate
    step = max(1, _MAX_WEIGHTS // max(1, q.shape[2] * k.shape[0] * k.shape[1]))
    total = torch.zeros_like(key_bias, dtype=dtype)
    for start in range(0, vips.longest, step):
        tile = slice(start, start + step)
        scores = torch.einsum("bphd,bchd->hbpc", q[:, tile], k) + key_bias[:, None]
        if bias is not None:
            reach = bias.shape[1] // 2
            distance = k_positions[:, None] - q_positions[:, tile, None]
            index = distance.clamp_(-reach, reach).add_(reach)
            # Each query gathers from its own copy of the biases; with one copy, the gradients of
            # all queries would be added into the same elements.
            biases = bias.to(dtype)[:, None, None].expand(-1, *index.shape[:2], -1)
            scores = scores + biases.gather(-1, index.expand(len(bias), -1, -1, -1))
        total = total + (scores.softmax(-1).mean(0) * vip_weights[:, tile, None]).sum(1)
    return keys.unpad(total)
