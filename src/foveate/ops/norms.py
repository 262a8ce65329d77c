"""Checks of the arguments of norms."""

from torch import Tensor


def check_vector(name: str, vector: Tensor, x: Tensor) -> None:
    """Raise ValueError unless a vector has the channels, dtype and device of x."""
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
