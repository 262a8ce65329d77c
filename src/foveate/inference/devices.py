"""Devices and dtypes by name."""

import torch

from foveate.ops.precision import supported_dtype


def resolve_device(device: str | torch.device | None) -> torch.device:
    """Return the device with this name; None means CUDA if available, else the CPU.

    Raises:
        ValueError: This machine has no such device.
    """
    if device is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        resolved = torch.device(device)
        torch.ones(1, device=resolved).item()
    except (RuntimeError, AssertionError) as error:
        available = "cpu or cuda" if torch.cuda.is_available() else "cpu"
        raise ValueError(f"there is no device {device!s} here: use {available}") from error
    return resolved


def resolve_dtype(dtype: str | torch.dtype, device: torch.device) -> torch.dtype:
    """Return the dtype with this name, or float16 for bfloat16 on a GPU without it.

    Raises:
        ValueError: Models do not run in this dtype.
    """
    resolved = getattr(torch, dtype, None) if isinstance(dtype, str) else dtype
    if resolved not in (torch.float32, torch.bfloat16, torch.float16):
        raise ValueError(f"dtype must be float32, bfloat16 or float16, got {dtype}")
    return supported_dtype(resolved, device)
