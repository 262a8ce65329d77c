"""Rotary positions: queries and keys turned by angles that grow with their positions."""

import torch
from torch import Tensor

from foveate.ops.backends import choose

from . import eager as _eager
from . import reference as _reference

__all__ = ["rotary_angles", "rotate"]


@torch.no_grad()
def rotary_angles(positions: Tensor, head_dim: int, theta: float) -> tuple[Tensor, Tensor]:
    """Return the cosines and sines by which `rotate` turns heads at these positions.

    Pair c of the channels, counted from 0, is turned by position · theta^(-2c / head_dim).

    Args:
        positions: `(n,)` integers.
        head_dim: Channels of a head, an even number.
        theta: The base of the frequencies, a positive number, 10,000 as a rule.

    Returns:
        Cosines and sines, each `(n, head_dim / 2)` float32.

    Raises:
        ValueError: If `positions` is not a vector, `head_dim` is odd, or `theta` is not positive.

    Example:
        >>> import torch
        >>> cos, sin = rotary_angles(torch.tensor([0, 1]), head_dim=2, theta=10_000.0)
        >>> cos
        tensor([[1.0000],
                [0.5403]])
    """
    if positions.dim() != 1:
        raise ValueError(f"positions must be (n,), got {tuple(positions.shape)}")
    if head_dim % 2:
        raise ValueError(f"rotary positions turn pairs of channels: head_dim is odd, {head_dim}")
    if theta <= 0:
        raise ValueError(f"theta must be positive, got {theta}")
    # In float32, the angles of a position in the hundred thousands are off by a hundredth.
    dtype = torch.float32 if positions.device.type == "mps" else torch.float64
    pairs = torch.arange(0, head_dim, 2, device=positions.device, dtype=dtype)
    angles = positions[:, None] * theta ** (-pairs / head_dim)
    return angles.cos().float(), angles.sin().float()


def rotate(
    q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, *, backend: str | None = None
) -> tuple[Tensor, Tensor]:
    """Turn queries and keys, so that their products depend on the distances of their positions.

    Channels c and c + head_dim / 2 are a pair, as in Llama and ModernBERT:

        (x_c, x_c') → (x_c · cos_c - x_c' · sin_c, x_c' · cos_c + x_c · sin_c)

    Args:
        q: Queries `(n, heads, head_dim)`, any floating dtype.
        k: Keys of the same shape, dtype and device.
        cos: `(n, head_dim / 2)`, see `rotary_angles`. It has no gradient.
        sin: The same.
        backend: One of `foveate.ops.backends.BACKENDS`; if None, the environment's, or "auto".

    Returns:
        The queries and the keys, each `(n, heads, head_dim)` in their dtype.

    Raises:
        ValueError: If shapes, dtypes or devices do not fit, if the backend is unknown, or if it
            cannot run on these tensors.

    Example:
        >>> import torch
        >>> x = torch.tensor([[[1.0, 0.0]], [[1.0, 0.0]]])
        >>> cos, sin = rotary_angles(torch.tensor([0, 1]), head_dim=2, theta=10_000.0)
        >>> rotate(x, x, cos, sin)[0]
        tensor([[[1.0000, 0.0000]],
        <BLANKLINE>
                [[0.5403, 0.8415]]])
    """
    if q.dim() != 3 or q.shape != k.shape or q.dtype != k.dtype or q.device != k.device:
        raise ValueError(
            "queries and keys must share one shape (n, heads, head_dim), dtype and device, "
            f"got {tuple(q.shape)} {q.dtype} on {q.device} and "
            f"{tuple(k.shape)} {k.dtype} on {k.device}"
        )
    if q.shape[2] % 2:
        raise ValueError(f"rotary positions turn pairs of channels, got {q.shape[2]} channels")
    for name, x in (("cos", cos), ("sin", sin)):
        if x.shape != (len(q), q.shape[2] // 2) or x.device != q.device:
            raise ValueError(
                f"{name} must be {(len(q), q.shape[2] // 2)} on {q.device}, "
                f"got {tuple(x.shape)} on {x.device}"
            )
    backend = choose(backend, q, widest=None)
    if backend == "reference":
        return _reference.rotate(q, cos, sin), _reference.rotate(k, cos, sin)
    if backend == "triton":
        from . import triton as _triton

        return _triton.rotate(q, k, cos, sin)
    return _eager.rotate(q, cos, sin), _eager.rotate(k, cos, sin)
