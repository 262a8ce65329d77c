"""Decoders: attention to the tokens generated so far and to an encoded document, and their limit.

torch's own fused attention is avoided where gradients flow: with padding masks, its backward pass
on a GPU occasionally returns NaN for the gradient of a query.
"""

from typing import Any

import torch
from torch import Tensor
from transformers import Cache, GenerationConfig, PreTrainedConfig

from foveate.ops.precision import widened
from foveate.ops.relative_attention import relative_attention


def prefill_attention(
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
    """Attend with several queries per sequence, without materializing scores of all pairs.

    Args:
        q: Queries `(batch, heads, queries, head_dim)`.
        k: Keys `(batch, heads, keys, head_dim)`.
        v: Values, shaped like the keys.
        table: Biases `(num_buckets, heads)` by distance; none if None.
        key_bias: `(batch, keys)`, -inf hides a key.
        past: Number of keys before the first query; attention is causal. None lets every query
            see every key.
        max_distance: Distance from which the bias stays constant.
        scale: Factor on the scores.

    Returns:
        `(batch, queries, heads, head_dim)`, 0 for a query that sees no key.
    """
    batch, _, num_queries, _ = q.shape
    positions = None
    if isinstance(past, Tensor) or past:
        positions = (past + torch.arange(num_queries, device=q.device)).repeat(batch)
    attended: Tensor = relative_attention(
        q.transpose(1, 2).flatten(0, 1),
        k.transpose(1, 2).flatten(0, 1),
        v.transpose(1, 2).flatten(0, 1),
        bias=table,
        q_positions=positions,
        q_lengths=[num_queries] * batch,
        k_lengths=[k.shape[2]] * batch,
        key_bias=None if key_bias is None else key_bias.flatten(),
        causal=past is not None,
        max_distance=max_distance,
        scale=scale,
    ).unflatten(0, (batch, num_queries))
    return attended


def decode_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    bias: Tensor | None = None,
    key_bias: Tensor | None = None,
    scale: float = 1.0,
) -> Tensor:
    """Attend with one query per sequence, as a step of generation does.

    Args:
        q: Queries `(batch, heads, 1, head_dim)`.
        k: Keys `(batch, heads, keys, head_dim)`.
        v: Values, shaped like the keys.
        bias: Added to the scores; broadcasts to `(batch, heads, 1, keys)`.
        key_bias: `(batch, keys)`, added to the scores.
        scale: Factor on the scores.

    Returns:
        `(batch, 1, heads, head_dim)`.
    """
    scores = q @ k.mT
    scores = widened(scores)
    if scale != 1:
        scores = scores * scale
    if bias is not None:
        scores = scores + bias
    if key_bias is not None:
        scores = scores + key_bias[:, None, None]
    # The softmax of a query that sees no key, all -inf, would be NaN.
    scores = scores.clamp(min=torch.finfo(scores.dtype).min)
    return (scores.softmax(-1).to(v.dtype) @ v).transpose(1, 2)


def find_cache(*arguments: Any) -> Cache | None:
    """Return the cache among arguments: `cache`, or `past_key_values` before transformers 5.24."""
    return next((argument for argument in arguments if isinstance(argument, Cache)), None)


def has_length_limit(config: GenerationConfig) -> bool:
    """Return whether a checkpoint says how long what it generates may be."""
    return bool(config.max_length or config.max_new_tokens)


def max_new_tokens(config: PreTrainedConfig, wanted: int) -> int:
    """Return how many tokens a decoder can generate, at most as many as are wanted."""
    names = ("max_decoder_position_embeddings", "max_position_embeddings")
    positions = next((number for name in names if (number := getattr(config, name, None))), None)
    return wanted if positions is None else min(wanted, positions - 1)  # one is the start token's
