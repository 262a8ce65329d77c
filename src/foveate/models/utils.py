"""Devices and dtypes by name, the supported model types, first position ids, tables of biases."""

from collections.abc import Collection

import torch
from torch import Tensor, nn

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


def check_model_type(model_type: str | None, supported: Collection[str]) -> None:
    """Reject checkpoints of models with other parameters.

    Raises:
        ValueError: `model_type` is not None and not supported.
    """
    if model_type is not None and model_type not in supported:
        raise ValueError(
            f"a checkpoint of {model_type} does not have the parameters of this model: name one of "
            f"{' or '.join(sorted(supported))}"
        )


def first_position(model: nn.Module) -> int:
    """Return the first position id: RoBERTa and models like it begin after the padding id."""
    padding = getattr(getattr(model, "embeddings", None), "padding_idx", None)
    return 0 if padding is None else int(padding) + 1


def bias_table(embedding: nn.Module, num_buckets: int, device: torch.device) -> Tensor:
    """Return T5's table of biases `(num_buckets, heads)`, by the embedding's own forward.

    That copies the table: a checkpointed block must not return a parameter. And its hooks run, by
    which a sharded table is gathered and an offloaded one is loaded.

    Args:
        embedding: Holds the bias of each bucket: `nn.Embedding`, or an adapter around it.
        num_buckets: Number of buckets.
        device: Where the model computes, which an offloaded weight does not tell.
    """
    table: Tensor = embedding(torch.arange(num_buckets, device=device))
    return table
