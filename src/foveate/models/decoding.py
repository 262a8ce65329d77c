"""Attention in decoders: padded batches, over themselves with a cache or over what was encoded.

torch's own fused attention is not used where gradients flow: with masks of padding its backward
pass on a GPU now and then gives a query a gradient that is not a number.
"""

import torch
from torch import Tensor

from foveate.ops.relative_attention import relative_attention


def attend_many(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    table: Tensor | None = None,
    key_bias: Tensor | None = None,
    past: int | Tensor | None = None,
    max_distance: int = 128,
    scale: float = 1.0,
) -> Tensor:
    """Attend several queries of each sequence, never forming all pairs.

    Args:
        q: queries `(batch, heads, queries, head_dim)`.
        k: keys `(batch, heads, keys, head_dim)`.
        v: values, shaped like the keys.
        table: biases `(num_buckets, heads)` by distance, none if None.
        key_bias: `(batch, keys)`, -inf hides a key.
        past: how many keys come before the first query, which sees these and its own; None where
            all queries see all keys.
        max_distance: distance near which the last bucket begins.
        scale: factor on the products.

    Returns:
        `(batch, queries, heads, head_dim)`, 0 for a query that sees no key.
    """
    batch, _, m, _ = q.shape
    places = None
    if isinstance(past, Tensor) or past:
        places = (past + torch.arange(m, device=q.device)).repeat(batch)
    out = relative_attention(
        *(x.transpose(1, 2).flatten(0, 1) for x in (q, k, v)),
        bias=table,
        q_positions=places,
        q_lengths=[m] * batch,
        k_lengths=[k.shape[2]] * batch,
        key_bias=None if key_bias is None else key_bias.flatten(),
        causal=past is not None,
        max_distance=max_distance,
        scale=scale,
    )
    return out.unflatten(0, (batch, m))


def attend_one(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    bias: Tensor | None = None,
    key_bias: Tensor | None = None,
    scale: float = 1.0,
) -> Tensor:
    """Attend one query of each sequence, as a step of generation does.

    Args:
        q: queries `(batch, heads, 1, head_dim)`.
        k: keys `(batch, heads, keys, head_dim)`.
        v: values, shaped like the keys.
        bias: what is added to the scores, to be broadcast to `(batch, heads, 1, keys)`.
        key_bias: `(batch, keys)`, added too.
        scale: factor on the products.

    Returns:
        `(batch, 1, heads, head_dim)`.
    """
    scores = q @ k.mT
    scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
    if scale != 1:
        scores = scores * scale
    if bias is not None:
        scores = scores + bias
    if key_bias is not None:
        scores = scores + key_bias[:, None, None]
    # Where no key is seen, softmax of -inf alone would make NaN.
    scores = scores.clamp(min=torch.finfo(scores.dtype).min)
    return (scores.softmax(-1).to(v.dtype) @ v).transpose(1, 2)
