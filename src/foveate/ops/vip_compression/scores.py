"""How much VIP tokens attend to each segment: what decides which are split (VCC, 6.2.4)."""

from typing import NamedTuple

import torch
from torch import Tensor

from foveate.ops.backends import choose

from .layout import Layout
from .ragged import Ragged

AT_ONCE = 1 << 28
"""Attention weights materialized together, unless those of one VIP token are more."""


class Candidates(NamedTuple):
    """The segments of a level that are rows of the compressed sequences, one after the other.

    Attributes:
        rows: their means `(c, d)`, in the dtype of the VIP tokens.
        positions: `(c,)`, rounded means of their tokens' positions.
        key_bias: `(c,)`, log of their tokens; -inf where there is none.
        counts: candidates of each sequence.
    """

    rows: Tensor
    positions: Tensor
    key_bias: Tensor
    counts: Ragged


def vip_scores(
    q: Tensor,
    k: Tensor,
    layout: Layout,
    candidates: Candidates,
    *,
    bias: Tensor | None = None,
    scale: float = 1.0,
    backend: str | None = None,
) -> Tensor:
    """Average the softmax attention of the VIP tokens of each sequence over them and over heads.

    Args:
        q: queries of the VIP tokens `(n_p, heads, head_dim)`.
        k: keys of the candidates `(c, heads, head_dim)`.
        layout: of the batch.
        candidates: what is attended, each as often as it has tokens.
        bias: T5's by distance, `(heads, 2·reach + 1)`: see
            `foveate.ops.relative_attention.bias_by_distance`; none where None.
        scale: factor on the products; T5 has none.
        backend: see `compress`.

    Returns:
        `(c,)` in float32 at least; those of a sequence sum to 1.
    """
    vips, keys = layout.vip_counts, candidates.counts
    if choose(backend, q) == "triton":
        from .triton import vip_scores as score_tiles

        places = layout.vip_positions, candidates.positions, layout.shares, candidates.key_bias
        spans = vips.starts, vips.counts, keys.starts, keys.counts
        return score_tiles(q, k, bias, (*places, *spans), vips.longest, keys.longest, scale)
    wide = torch.promote_types(q.dtype, torch.float32)
    q, k = vips.pad(q.to(wide) * scale), keys.pad(k.to(wide))
    q_positions, k_positions = vips.pad(layout.vip_positions), keys.pad(candidates.positions)
    shares, key_bias = vips.pad(layout.shares), keys.pad(candidates.key_bias.to(wide))
    if vips.absent is not None:
        shares = shares.masked_fill(vips.absent, 0)
    if keys.absent is not None:
        key_bias = key_bias.masked_fill(keys.absent, -torch.inf)
    key_bias = key_bias.clamp(min=torch.finfo(wide).min / 2)  # there may be nothing else to see
    at_once = max(1, AT_ONCE // max(1, q.shape[2] * k.shape[0] * k.shape[1]))
    total = torch.zeros_like(key_bias, dtype=wide)
    for start in range(0, vips.longest, at_once):
        some = slice(start, start + at_once)
        scores = torch.einsum("bphd,bchd->hbpc", q[:, some], k) + key_bias[:, None]
        if bias is not None:
            reach = bias.shape[1] // 2
            distance = k_positions[:, None] - q_positions[:, some, None]
            place = distance.clamp_(-reach, reach).add_(reach)
            # A row of biases for each query, or all would sum their gradient in the same places.
            rows = bias.to(wide)[:, None, None].expand(-1, *place.shape[:2], -1)
            scores = scores + rows.gather(-1, place.expand(len(bias), -1, -1, -1))
        total = total + (scores.softmax(-1).mean(0) * shares[:, some, None]).sum(1)
    return keys.unpad(total)
