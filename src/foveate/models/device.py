"""Where a model runs, and in which dtype."""

import torch


def device_named(device: str | torch.device | None) -> torch.device:
    """Give a device by name; None is CUDA if there is one, else the CPU.

    Raises:
        ValueError: there is no such device here.
    """
    if device is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        found = torch.device(device)
        torch.ones(1, device=found).item()
    except (RuntimeError, AssertionError) as error:
        there = "cpu, cuda" if torch.cuda.is_available() else "cpu"
        raise ValueError(f"there is no device {device!s} here: use one of {there}") from error
    return found


def dtype_named(dtype: str | torch.dtype) -> torch.dtype:
    """Give a dtype that models run in by name.

    Raises:
        ValueError: it is another one.
    """
    found = getattr(torch, dtype, None) if isinstance(dtype, str) else dtype
    if found not in (torch.float32, torch.bfloat16, torch.float16):
        raise ValueError(f"dtype must be float32, bfloat16 or float16, got {dtype}")
    return found
