"""Attention with T5's relative position bias, never all pairs at once."""

from collections.abc import Sequence

from torch import Tensor

from foveate.ops.backends import autocast, choose

from . import eager as _eager
from . import reference as _reference
from .buckets import bias_by_distance, bucket_starts, buckets
from .validation import (
    check_beside,
    check_bias,
    check_positions,
    check_rows,
    whole_lengths,
)

__all__ = ["bias_by_distance", "bucket_starts", "buckets", "relative_attention"]


def relative_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    bias: Tensor | None = None,
    q_positions: Tensor | None = None,
    k_positions: Tensor | None = None,
    q_lengths: Sequence[int] | None = None,
    k_lengths: Sequence[int] | None = None,
    key_bias: Tensor | None = None,
    causal: bool = False,
    max_distance: int = 128,
    scale: float = 1.0,
    backend: str | None = None,
) -> Tensor:
    """Attend inside packed sequences, with a bias for every distance of a key from a query.

    The score of query i and key j of one sequence, for each head, is

        scale · q_i·k_j + bias[bucket(k_positions[j] - q_positions[i])] + key_bias[j].

    Queries and keys of T5's encoder and decoder are the same rows; in its cross attention, which
    has no bias, and in VIP compression, whose coarse rows stand between the positions of their
    tokens and weigh log(multiplicity) more, they are not. Memory is linear in the rows, gradients
    reach q, k, v, bias and key_bias, and repeating a call repeats its bits, on the CPU and in the
    kernels.

    Args:
        q: queries `(tokens, heads, head_dim)`, any floating dtype, sequences one after the other.
        k: keys `(key_tokens, heads, head_dim)`, likewise.
        v: values, shaped like the keys.
        bias: `(num_buckets, heads)`, any floating dtype; none where None.
        q_positions: `(tokens,)` integers in any order; 0, 1, … in each sequence if None.
        k_positions: `(key_tokens,)` integers in any order; 0, 1, … in each sequence if None.
        q_lengths: number of queries in each sequence, host integers; one sequence if None.
        k_lengths: number of keys in each sequence; those of the queries if None and the rows are
            as many.
        key_bias: `(key_tokens,)`, -inf hides a key.
        causal: hide keys at positions after the query's, and give all buckets to those before, as
            in T5's decoder.
        max_distance: distance near which the last bucket begins.
        scale: factor on the products; T5 has none.
        backend: "triton" (kernels for GPUs), "eager" (any device), both of linear memory,
            "reference" (the dense definition), or "auto": triton where it can run, torch elsewhere.
            If None, what the environment variable FOVEATE_BACKEND says, "auto" if nothing.

    Returns:
        `(tokens, heads, head_dim)` in the dtype of `q`, which is 0 for a query that sees no key.

    Raises:
        ValueError: shapes, dtypes, devices, lengths or buckets that do not fit together, an unknown
            backend, or one that cannot run on these tensors.

    Example:
        >>> import torch
        >>> q, k, v = torch.randn(3, 7, 2, 8)  # a sequence of five tokens and one of two
        >>> table = torch.randn(32, 2)
        >>> relative_attention(q, k, v, bias=table, q_lengths=[5, 2]).shape
        torch.Size([7, 2, 8])
    """
    q, k, v = autocast(q), autocast(k), autocast(v)
    check_rows(q, k, v)
    check_bias(bias, q)
    if k_lengths is None and q.shape[0] == k.shape[0]:
        k_lengths = q_lengths
    q_lengths = whole_lengths("q_lengths", q_lengths, q)
    k_lengths = whole_lengths("k_lengths", k_lengths, k)
    if len(q_lengths) != len(k_lengths):
        raise ValueError(
            f"q_lengths has {len(q_lengths)} sequences but k_lengths has {len(k_lengths)}"
        )
    for name, positions, rows in (("q", q_positions, q), ("k", k_positions, k)):
        if positions is not None:
            check_positions(f"{name}_positions", positions, rows)
    if key_bias is not None:
        if key_bias.shape != k.shape[:1]:
            raise ValueError(f"key_bias must be ({len(k)},), got {tuple(key_bias.shape)}")
        check_beside("key_bias", key_bias, k)
    backend = choose(backend, q)
    if backend == "triton":
        from .triton import relative_attention as attend_tiles

        return attend_tiles(
            *(q, k, v, bias, key_bias, q_positions, k_positions),
            *(q_lengths, k_lengths, causal, max_distance, scale),
        )

    if backend == "reference":
        return _reference.relative_attention(
            *(q, k, v, bias, q_positions, k_positions, q_lengths, k_lengths),
            *(key_bias, causal, max_distance, scale),
        )
    if bias is not None:
        bias = bias_by_distance(bias, max_distance, bidirectional=not causal)
    groups = _eager.Sequences(q_lengths, k_lengths, q_positions, k_positions, q.device)
    return _eager.grouped_attention(q, k, v, bias, key_bias, groups, causal, scale)
