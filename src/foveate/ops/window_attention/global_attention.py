"""Global tokens: as keys and values that all queries see, and as queries that see all keys."""

from collections.abc import Sequence
from itertools import compress
from typing import NamedTuple

import torch
from torch import Tensor

from foveate.ops._packed.validation import (
    as_lengths,
    check_bias,
    check_device,
    check_positions,
    check_scale,
)
from foveate.ops.backends import autocast
from foveate.ops.relative_attention import relative_attention

from .validation import check_masked_keys


class GlobalKeysValues(NamedTuple):
    """Keys and values that every query of their sequence sees, wherever its window is.

    They are those of Longformer's global tokens, or summaries of blocks as in LongT5.

    Attributes:
        k: Keys `(global_tokens, heads, head_dim)`, packed like the sequences.
        v: Values, same shape.
        lengths: The number of global tokens in each sequence, host integers, possibly 0.
        bias: T5's table `(num_buckets, heads)`, any floating dtype; no bias if None.
        positions: `(tokens,)` integers, the position of each query among the global keys of its
            sequence, which are at 0, 1, …. Given if and only if there is a bias.
        masked: `(global_tokens,)` bool, True for those that no query sees, which keep their
            positions; none if None.
    """

    k: Tensor
    v: Tensor
    lengths: Sequence[int]
    bias: Tensor | None = None
    positions: Tensor | None = None
    masked: Tensor | None = None


def check_global_keys_values(kv: GlobalKeysValues, q: Tensor, num_sequences: int) -> None:
    """Raise ValueError unless the global keys and values match the queries."""
    k, v, lengths, bias, positions, masked = kv
    if k.dim() != 3 or k.shape != v.shape or k.shape[1:] != q.shape[1:]:
        raise ValueError(
            "global_keys_values.k and .v must share one shape "
            f"(global_tokens, {q.shape[1]}, {q.shape[2]}), got {tuple(k.shape)} and "
            f"{tuple(v.shape)}"
        )
    if not k.dtype == v.dtype == q.dtype:
        raise ValueError(
            f"global_keys_values.k and .v must have the dtype of q, {q.dtype}, "
            f"got {k.dtype} and {v.dtype}"
        )
    check_device("global_keys_values.k", k, q)
    check_device("global_keys_values.v", v, q)
    if len(lengths) != num_sequences or min(lengths, default=0) < 0 or sum(lengths) != len(k):
        raise ValueError(
            f"global_keys_values.lengths must be one for each of {num_sequences} sequences, none "
            f"below 0, and add up to {len(k)} tokens, got {len(lengths)} that add up to "
            f"{sum(lengths)}"
        )
    check_bias(bias, q)
    if (bias is None) != (positions is None):
        raise ValueError(
            "global_keys_values.bias and .positions need each other: give both or neither"
        )
    if positions is not None:
        check_positions("global_keys_values.positions", positions, q)
    check_masked_keys("global_keys_values.masked", masked, k)


def masked_key_bias(masked: Tensor) -> Tensor:
    """Turn a mask of keys into a bias on their scores: -inf where it is True, and 0 elsewhere."""
    return torch.zeros(masked.shape, device=masked.device).masked_fill(masked, -torch.inf)


def global_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    q_lengths: Sequence[int],
    k_lengths: Sequence[int],
    masked_keys: Tensor | None = None,
    scale: float | None = None,
    backend: str | None = None,
) -> Tensor:
    """Attend to all tokens of the query's sequence, as Longformer's and LED's global tokens do.

    Args:
        q: Queries `(global_tokens, heads, head_dim)`, any floating dtype, of packed sequences,
            from separate projections for global attention.
        k: Keys `(tokens, heads, head_dim)`, likewise.
        v: Values, shaped like the keys.
        q_lengths: The number of global tokens in each sequence, host integers, possibly 0.
        k_lengths: The number of tokens in each sequence, host integers.
        masked_keys: `(tokens,)` bool, True for tokens that no query sees; each sequence needs one
            that is False.
        scale: Factor on the products; 1/√head_dim if None.
        backend: As for `relative_attention`, which this calls.

    Returns:
        `(global_tokens, heads, head_dim)` in the dtype of `q`.

    Raises:
        ValueError: If shapes, dtypes, devices or lengths do not match, if the backend is unknown,
            or if it cannot run on these tensors.

    Example:
        >>> q, k = torch.randn(3, 2, 8), torch.randn(9, 2, 8)
        >>> global_attention(q, k, k, q_lengths=[1, 2], k_lengths=[5, 4]).shape
        torch.Size([3, 2, 8])
    """
    q_lengths, k_lengths = as_lengths("q_lengths", q_lengths), as_lengths("k_lengths", k_lengths)
    for name, lengths, x in (("q_lengths", q_lengths, q), ("k_lengths", k_lengths, k)):
        if min(lengths, default=0) < 0 or sum(lengths) != x.shape[0]:
            raise ValueError(
                f"{name} must not be below 0 and add up to {x.shape[0]} tokens, got a sum of "
                f"{sum(lengths)}"
            )
    if len(q_lengths) != len(k_lengths):
        raise ValueError(
            f"q_lengths has {len(q_lengths)} sequences but k_lengths has {len(k_lengths)}"
        )
    check_masked_keys("masked_keys", masked_keys, k)
    check_scale(scale)
    if not q.numel():
        return autocast(q).clone()
    key_bias = None if masked_keys is None else masked_key_bias(masked_keys)
    has_queries = [n > 0 for n in q_lengths]
    if not all(has_queries):
        k, v = (_select_sequences(x, k_lengths, has_queries) for x in (k, v))
        if key_bias is not None:
            key_bias = _select_sequences(key_bias, k_lengths, has_queries)
    return relative_attention(
        q,
        k,
        v,
        q_lengths=[*compress(q_lengths, has_queries)],
        k_lengths=[*compress(k_lengths, has_queries)],
        key_bias=key_bias,
        scale=q.shape[-1] ** -0.5 if scale is None else scale,
        backend=backend,
    )


def _select_sequences(x: Tensor, lengths: Sequence[int], selected: Sequence[bool]) -> Tensor:
    return torch.cat([*compress(x.split([*lengths]), selected)])
