"""Attention with T5's relative position bias, in linear memory."""

from collections.abc import Sequence

from torch import Tensor

from foveate.ops._packed.buckets import bias_by_distance, bucket_starts, buckets
from foveate.ops._packed.validation import (
    check_bias,
    check_device,
    check_lengths,
    check_positions,
    check_qkv,
    check_scale,
)
from foveate.ops.backends import autocast, choose

from . import eager as _eager
from . import reference as _reference

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
    """Attend within packed sequences, with a bias for every distance of a key from a query.

    The score of query i and key j of one sequence is, for each head,

        scale · q_i·k_j + bias[bucket(k_positions[j] - q_positions[i])] + key_bias[j].

    In T5's encoder and decoder, queries and keys are the same tokens. They differ in its cross
    attention, which has no bias, and in VIP compression, whose coarse tokens lie between the
    positions of the tokens that they summarize and have a key bias of log(multiplicity). Memory is
    linear in the tokens, gradients reach q, k, v, bias and key_bias, and repeated calls give
    bitwise equal results, on the CPU and in the kernels.

    Args:
        q: Queries `(tokens, heads, head_dim)`, any floating dtype, of packed sequences.
        k: Keys `(key_tokens, heads, head_dim)`, likewise.
        v: Values, shaped like the keys.
        bias: T5's table `(num_buckets, heads)`, any floating dtype; no bias if None.
        q_positions: `(tokens,)` integers in any order; 0, 1, … in each sequence if None.
        k_positions: `(key_tokens,)` integers in any order; 0, 1, … in each sequence if None.
        q_lengths: The number of queries in each sequence, host integers; one sequence if None.
        k_lengths: The number of keys in each sequence; if None, `q_lengths` if there are as many
            keys as queries, otherwise one sequence.
        key_bias: `(key_tokens,)`; -inf hides a key.
        causal: Whether to hide keys at positions after the query's and to give all buckets to those
            before, as in T5's decoder.
        max_distance: Distance near which the last bucket begins.
        scale: Factor on the products; T5 has none.
        backend: One of `foveate.ops.backends.BACKENDS`; if None, the environment's, or "auto".

    Returns:
        `(tokens, heads, head_dim)` in the dtype of `q`, 0 for a query that sees no key.

    Raises:
        ValueError: If shapes, dtypes, devices, lengths or buckets do not match, if the backend is
            unknown, or if it cannot run on these tensors.

    Example:
        >>> import torch
        >>> q, k, v = torch.randn(3, 7, 2, 8)  # a sequence of five tokens and one of two
        >>> table = torch.randn(32, 2)
        >>> relative_attention(q, k, v, bias=table, q_lengths=[5, 2]).shape
        torch.Size([7, 2, 8])
    """
    q, k, v = autocast(q), autocast(k), autocast(v)
    check_qkv(q, k, v)
    check_bias(bias, q)
    check_scale(scale)
    if k_lengths is None and q.shape[0] == k.shape[0]:
        k_lengths = q_lengths
    q_lengths = check_lengths("q_lengths", q_lengths, q)
    k_lengths = check_lengths("k_lengths", k_lengths, k)
    if len(q_lengths) != len(k_lengths):
        raise ValueError(
            f"q_lengths has {len(q_lengths)} sequences but k_lengths has {len(k_lengths)}"
        )
    for name, positions, tokens in (("q", q_positions, q), ("k", k_positions, k)):
        if positions is not None:
            check_positions(f"{name}_positions", positions, tokens)
    if key_bias is not None:
        if key_bias.shape != k.shape[:1]:
            raise ValueError(f"key_bias must be ({len(k)},), got {tuple(key_bias.shape)}")
        check_device("key_bias", key_bias, k)
    backend = choose(backend, q)
    if backend == "triton":
        from .triton import relative_attention as attend
    elif backend == "reference":
        attend = _reference.relative_attention
    else:
        attend = _eager.relative_attention
    return attend(
        q,
        k,
        v,
        bias,
        key_bias,
        q_positions,
        k_positions,
        q_lengths,
        k_lengths,
        causal,
        max_distance,
        scale,
    )
