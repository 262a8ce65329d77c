"""Checks of the arguments of attention over packed sequences."""

from collections.abc import Iterable
from numbers import Integral
from operator import index

import torch
from torch import Tensor


def check_qkv(q: Tensor, k: Tensor, v: Tensor) -> None:
    """Raise ValueError unless q, k and v are packed and can attend to each other."""
    if q.dim() != 3 or k.dim() != 3 or k.shape != v.shape or q.shape[1:] != k.shape[1:]:
        raise ValueError(
            "q must be (tokens, heads, head_dim) and k and v share (key_tokens, heads, head_dim), "
            f"got {tuple(q.shape)}, {tuple(k.shape)} and {tuple(v.shape)}"
        )
    if not q.dtype == k.dtype == v.dtype or not q.is_floating_point():
        raise ValueError(
            f"q, k and v must share one floating dtype, got {q.dtype}, {k.dtype} and {v.dtype}"
        )
    if not q.device == k.device == v.device:
        raise ValueError(
            f"q, k and v must be on one device, got {q.device}, {k.device} and {v.device}"
        )


def check_self_attention(q: Tensor, k: Tensor, v: Tensor) -> None:
    """Raise ValueError unless q, k and v are packed tensors of one shape, dtype and device."""
    if q.dim() != 3 or not q.shape == k.shape == v.shape:
        raise ValueError(
            "q, k and v must share one shape (tokens, heads, head_dim), "
            f"got {tuple(q.shape)}, {tuple(k.shape)} and {tuple(v.shape)}"
        )
    check_qkv(q, k, v)


def check_bias(bias: Tensor | None, q: Tensor) -> None:
    """Raise ValueError unless bias is a table `(num_buckets, heads)` on the device of q."""
    if bias is None:
        return
    if bias.dim() != 2 or bias.shape[1] != q.shape[1]:
        raise ValueError(
            f"bias must be (num_buckets, heads) with {q.shape[1]} heads, got {tuple(bias.shape)}"
        )
    check_device("bias", bias, q)


def check_device(name: str, x: Tensor, q: Tensor) -> None:
    """Raise ValueError unless x is on the device of q."""
    if x.device != q.device:
        raise ValueError(f"{name} must be on the device of q, got {x.device} and {q.device}")


def check_positions(name: str, positions: Tensor, tokens: Tensor) -> None:
    """Raise ValueError unless there is one integer position for each token."""
    if positions.shape != tokens.shape[:1] or positions.dtype not in (torch.int32, torch.int64):
        raise ValueError(
            f"{name} must be ({len(tokens)},) integers, "
            f"got shape {tuple(positions.shape)} and dtype {positions.dtype}"
        )
    check_device(name, positions, tokens)


def check_scale(scale: float | None) -> None:
    """Raise ValueError if the scale is a tensor, which would get no gradient from most backends."""
    if isinstance(scale, Tensor):
        raise ValueError("scale must be a number, got a tensor: multiply q by it instead")


def are_integers(values: Iterable[object]) -> bool:
    """Return whether all values are integers, of Python or NumPy."""
    return set(map(type, values)) == {int} or all(isinstance(value, Integral) for value in values)


def check_sizes(name: str, *sizes: int) -> None:
    """Raise ValueError unless all sizes are integers."""
    if not are_integers(sizes):
        raise ValueError(f"{name} must be integers, got {', '.join(map(repr, sizes))}")


def as_lengths(name: str, lengths: Iterable[int]) -> tuple[int, ...]:
    """Return lengths as Python integers, from which tables are cached.

    Raises:
        ValueError: If they are not a sequence of integers.
    """
    try:
        lengths = tuple(lengths.tolist() if isinstance(lengths, Tensor) else lengths)
        return tuple(map(index, lengths))
    except TypeError:
        raise ValueError(f"{name} must be a sequence of integers, got {lengths!r}") from None


def check_lengths(name: str, lengths: Iterable[int] | None, tokens: Tensor) -> tuple[int, ...]:
    """Return the lengths of the packed sequences; None means one sequence of all tokens.

    Raises:
        ValueError: If the lengths are not integers, if one is below 1, or if they do not add up to
            the number of tokens.
    """
    n = tokens.shape[0]
    if lengths is None:
        return (n,) if n else ()
    lengths = as_lengths(name, lengths)
    if (lengths and min(lengths) < 1) or sum(lengths) != n:
        raise ValueError(
            f"{name} must be positive and add up to {n} tokens, got {len(lengths)} lengths with "
            f"a minimum of {min(lengths, default=0)} and a sum of {sum(lengths)}"
        )
    return lengths
