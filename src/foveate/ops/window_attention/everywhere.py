"""Global tokens as queries: few rows that see all rows of their sequence."""

from collections.abc import Sequence
from itertools import compress
from typing import Any

import torch
from torch import Tensor

from foveate.ops.backends import autocast
from foveate.ops.relative_attention import relative_attention

from .validation import check_hidden


def global_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    q_lengths: Sequence[int],
    k_lengths: Sequence[int],
    hidden: Tensor | None = None,
    scale: float | None = None,
) -> Tensor:
    """Attend all rows of the query's sequence, as Longformer's and LED's global tokens do.

    Args:
        q: queries `(global_tokens, heads, head_dim)`, any floating dtype, those of one sequence
            after those of another, by projections of their own.
        k: keys `(tokens, heads, head_dim)`, by projections of their own.
        v: values, shaped like the keys.
        q_lengths: global tokens of each sequence, host integers, 0 where it has none.
        k_lengths: rows of each sequence, host integers.
        hidden: `(tokens,)` bool, rows that nobody sees; at least one of a sequence must be seen.
        scale: factor on the products, 1/√head_dim if None.

    Returns:
        `(global_tokens, heads, head_dim)` in the dtype of `q`.

    Raises:
        ValueError: shapes, dtypes, devices or lengths that do not fit together.

    Example:
        >>> q, k = torch.randn(3, 2, 8), torch.randn(9, 2, 8)
        >>> global_attention(q, k, k, q_lengths=[1, 2], k_lengths=[5, 4]).shape
        torch.Size([3, 2, 8])
    """
    for name, of_sequences, x in (("q_lengths", q_lengths, q), ("k_lengths", k_lengths, k)):
        if min(of_sequences, default=0) < 0 or sum(of_sequences) != x.shape[0]:
            raise ValueError(
                f"{name} must not be below 0 and add up to {x.shape[0]} rows, "
                f"got {sum(of_sequences)} in all"
            )
    if len(q_lengths) != len(k_lengths):
        raise ValueError(
            f"q_lengths has {len(q_lengths)} sequences but k_lengths has {len(k_lengths)}"
        )
    check_hidden(hidden, k)
    if not q.shape[0]:
        return autocast(q).clone()
    key_bias = None
    if hidden is not None:
        key_bias = torch.zeros(k.shape[0], device=k.device).masked_fill(hidden, -torch.inf)
    asked = [n > 0 for n in q_lengths]
    if not all(asked):
        k, v, key_bias = (_of(asked, x, k_lengths) for x in (k, v, key_bias))
    return relative_attention(
        *(q, k, v),
        q_lengths=[*compress(q_lengths, asked)],
        k_lengths=[*compress(k_lengths, asked)],
        key_bias=key_bias,
        scale=q.shape[-1] ** -0.5 if scale is None else scale,
    )


def _of(asked: Sequence[bool], x: Tensor | None, lengths: Sequence[int]) -> Any:
    """Rows of those sequences that are asked."""
    return None if x is None else torch.cat([*compress(x.split([*lengths]), asked)])
