"""What attention with relative positions asks of its arguments."""

from collections.abc import Sequence

import torch
from torch import Tensor


def check_rows(q: Tensor, k: Tensor, v: Tensor) -> None:
    """Raise ValueError unless q, k and v are packed rows that can attend each other."""
    if q.dim() != 3 or k.dim() != 3 or k.shape != v.shape or q.shape[1:] != k.shape[1:]:
        raise ValueError(
            "q must be (tokens, heads, head_dim) and k and v share (key_tokens, heads, head_dim), "
            f"got {tuple(q.shape)}, {tuple(k.shape)} and {tuple(v.shape)}"
        )
    if not q.dtype == k.dtype == v.dtype or not q.is_floating_point():
        raise ValueError(
            f"q, k and v must share one floating dtype, got {q.dtype}, {k.dtype}, {v.dtype}"
        )
    if not q.device == k.device == v.device:
        raise ValueError(
            f"q, k and v must be on one device, got {q.device}, {k.device} and {v.device}"
        )


def check_bias(bias: Tensor | None, q: Tensor) -> None:
    """Raise ValueError unless bias is a table `(num_buckets, heads)` beside q."""
    if bias is None:
        return
    if bias.dim() != 2 or bias.shape[1] != q.shape[1]:
        raise ValueError(
            f"bias must be (num_buckets, heads) with {q.shape[1]} heads, got {tuple(bias.shape)}"
        )
    check_beside("bias", bias, q)


def check_beside(name: str, x: Tensor, q: Tensor) -> None:
    """Raise ValueError unless x is on the device of q."""
    if x.device != q.device:
        raise ValueError(f"{name} must be on the device of q, got {x.device} and {q.device}")


def check_positions(name: str, positions: Tensor, rows: Tensor) -> None:
    """Raise ValueError unless there is one integer position for each row."""
    if positions.shape != rows.shape[:1] or positions.dtype not in (torch.int32, torch.int64):
        raise ValueError(
            f"{name} must be ({len(rows)},) integers, "
            f"got shape {tuple(positions.shape)} and dtype {positions.dtype}"
        )
    check_beside(name, positions, rows)


def whole_lengths(name: str, lengths: Sequence[int] | None, rows: Tensor) -> tuple[int, ...]:
    """Lengths of the packed sequences; all rows are one where none are given.

    Raises:
        ValueError: a length below 1, or lengths that do not add up to the rows.
    """
    n = rows.shape[0]
    lengths = (n,) * (n > 0) if lengths is None else tuple(lengths)
    if min(lengths, default=1) < 1 or sum(lengths) != n:
        raise ValueError(
            f"{name} must be positive and add up to {n} rows, "
            f"got {len(lengths)} lengths from {min(lengths, default=0)} on, {sum(lengths)} in all"
        )
    return lengths
