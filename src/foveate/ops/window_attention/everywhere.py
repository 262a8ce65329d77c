"""Global tokens as queries: few rows that see all rows of their sequence."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from foveate.ops.backends import autocast
from foveate.ops.relative_attention.validation import check_rows

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
    q, k, v = autocast(q), autocast(k), autocast(v)
    check_rows(q, k, v)
    lengths = {"q_lengths": (q_lengths, len(q)), "k_lengths": (k_lengths, len(k))}
    for name, (of_sequences, rows) in lengths.items():
        if min(of_sequences, default=0) < 0 or sum(of_sequences) != rows:
            raise ValueError(
                f"{name} must not be below 0 and add up to {rows} rows, "
                f"got {sum(of_sequences)} in all"
            )
    if len(q_lengths) != len(k_lengths):
        raise ValueError(
            f"q_lengths has {len(q_lengths)} sequences but k_lengths has {len(k_lengths)}"
        )
    check_hidden(hidden, k)
    if not len(q):
        return q.clone()
    q, k, v = (x.transpose(0, 1)[None] for x in (q, k, v))
    seen = None if hidden is None else ~hidden[None, None, None]
    if len(q_lengths) == 1:
        out = F.scaled_dot_product_attention(q, k, v, seen, scale=scale)
    else:
        keys, values = k.split(k_lengths, 2), v.split(k_lengths, 2)
        masks = [None] * len(k_lengths) if seen is None else seen.split(k_lengths, 3)
        out = torch.cat(
            [
                F.scaled_dot_product_attention(*rows, scale=scale)
                for rows in zip(q.split(q_lengths, 2), keys, values, masks, strict=True)
                if rows[0].shape[2]
            ],
            dim=2,
        )
    return out[0].transpose(0, 1)
