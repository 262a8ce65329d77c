"""Checks of the arguments of window attention."""

import torch
from torch import Tensor

from foveate.ops._packed.validation import are_integers, check_device


def check_window(window: tuple[int, int]) -> None:
    """Raise ValueError unless the window is (left, right) with neither below 0."""
    if not (
        isinstance(window, tuple | list)
        and len(window) == 2
        and are_integers(window)
        and min(window) >= 0
    ):
        raise ValueError(
            f"window must be (left, right), two integers of which neither is below 0, got {window}"
        )


def check_masked_keys(name: str, masked_keys: Tensor | None, tokens: Tensor) -> None:
    """Raise ValueError unless there is one bool per token."""
    if masked_keys is None:
        return
    if masked_keys.shape != tokens.shape[:1] or masked_keys.dtype != torch.bool:
        raise ValueError(
            f"{name} must be ({len(tokens)},) bool, "
            f"got shape {tuple(masked_keys.shape)} and dtype {masked_keys.dtype}"
        )
    check_device(name, masked_keys, tokens)
