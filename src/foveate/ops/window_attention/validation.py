"""What window attention asks of its arguments."""

from collections.abc import Sequence

import torch
from torch import Tensor

from foveate.ops.relative_attention.validation import check_beside, check_bias, check_positions
from foveate.ops.relative_attention.validation import check_rows as check_attended

from .side import Side


def check_rows(q: Tensor, k: Tensor, v: Tensor) -> None:
    """Raise ValueError unless q, k and v are packed rows of one shape, dtype and device."""
    if q.dim() != 3 or not q.shape == k.shape == v.shape:
        raise ValueError(
            "q, k and v must share one shape (tokens, heads, head_dim), "
            f"got {tuple(q.shape)}, {tuple(k.shape)} and {tuple(v.shape)}"
        )
    check_attended(q, k, v)


def check_window(window: tuple[int, int]) -> None:
    """Raise ValueError unless the window is rows to the left and to the right."""
    if len(window) != 2 or min(window) < 0:
        raise ValueError(f"window must be (left, right), neither below 0, got {window}")


def dilation_of_heads(dilation: int | Sequence[int], heads: int) -> tuple[int, ...]:
    """Dilation of each head.

    Raises:
        ValueError: one below 1, or not as many as there are heads.
    """
    of_heads = (dilation,) * heads if isinstance(dilation, int) else tuple(dilation)
    if len(of_heads) != heads or min(of_heads, default=1) < 1:
        raise ValueError(
            f"dilation must be an integer from 1 on, or one for each of {heads} heads, "
            f"got {dilation}"
        )
    return of_heads


def check_hidden(hidden: Tensor | None, rows: Tensor) -> None:
    """Raise ValueError unless hidden is a bool for each row."""
    if hidden is None:
        return
    if hidden.shape != rows.shape[:1] or hidden.dtype != torch.bool:
        raise ValueError(
            f"hidden must be ({len(rows)},) bool, "
            f"got shape {tuple(hidden.shape)} and dtype {hidden.dtype}"
        )
    check_beside("hidden", hidden, rows)


def check_side(side: Side, q: Tensor, sequences: int) -> None:
    """Raise ValueError unless the side rows are for these queries."""
    k, v, lengths, bias, positions = side
    if k.dim() != 3 or k.shape != v.shape or k.shape[1:] != q.shape[1:]:
        raise ValueError(
            f"side.k and side.v must share one shape (side_rows, {q.shape[1]}, {q.shape[2]}), "
            f"got {tuple(k.shape)} and {tuple(v.shape)}"
        )
    if not k.dtype == v.dtype == q.dtype:
        raise ValueError(
            f"side.k and side.v must have the dtype of q, {q.dtype}, got {k.dtype} and {v.dtype}"
        )
    check_beside("side.k", k, q)
    check_beside("side.v", v, q)
    if len(lengths) != sequences or min(lengths, default=0) < 0 or sum(lengths) != len(k):
        raise ValueError(
            f"side.lengths must be one for each of {sequences} sequences, none below 0, and add up "
            f"to {len(k)} rows, got {len(lengths)}, {sum(lengths)} in all"
        )
    check_bias(bias, q)
    if (bias is None) != (positions is None):
        raise ValueError("side.bias and side.positions need each other: give both or neither")
    if positions is not None:
        check_positions("side.positions", positions, q)
