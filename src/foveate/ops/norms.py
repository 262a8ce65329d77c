"""Checks of the arguments of norms."""

from torch import Tensor


def check_vector(name: str, vector: Tensor | None, x: Tensor) -> None:
    """Raise ValueError unless x is floating, and a vector has its channels, dtype and device."""
    if not x.is_floating_point():
        raise ValueError(f"x must have a floating dtype, got {x.dtype}")
    if vector is None:
        raise ValueError(f"{name} must be a tensor of {x.shape[-1]} channels, got None")
    if vector.shape != x.shape[-1:] or vector.dtype != x.dtype or vector.device != x.device:
        raise ValueError(
            f"{name} must be {tuple(x.shape[-1:])} {x.dtype} on {x.device} to match x, "
            f"got {tuple(vector.shape)} {vector.dtype} on {vector.device}"
        )


def check_update(update: Tensor, x: Tensor) -> None:
    """Raise ValueError unless an update has the shape and device of x."""
    if update.shape != x.shape or update.device != x.device:
        raise ValueError(
            f"update must be {tuple(x.shape)} on {x.device} to match x, "
            f"got {tuple(update.shape)} on {update.device}"
        )
