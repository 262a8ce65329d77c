"""Where a model runs."""

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
        torch.empty(0, device=found)
    except (RuntimeError, AssertionError) as error:
        there = "cpu, cuda" if torch.cuda.is_available() else "cpu"
        raise ValueError(f"there is no device {device!s} here: use one of {there}") from error
    return found
