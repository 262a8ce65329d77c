"""Cross-entropy of predictions over a vocabulary, on a GPU without copies of the logits."""

import torch
import torch.nn.functional as F
from torch import Tensor

from foveate.ops.backends import choose
from foveate.ops.precision import widened

from . import reference as _reference

__all__ = ["cross_entropy"]


def cross_entropy(
    logits: Tensor, labels: Tensor, *, ignore_index: int = -100, backend: str | None = None
) -> Tensor:
    """Return the cross-entropy of each prediction with its label.

        loss_i = log Σⱼ exp(logits_ij) - logits_i,label(i)

    The kernels compute in float32 whatever the dtype of the logits, read them once in each
    direction, and keep two numbers per prediction for the backward pass. PyTorch writes three
    arrays of the size of the logits in float32 when it trains in lower precision.

    Args:
        logits: `(..., vocab_size)`, any floating dtype.
        labels: `(...)` int64, the index of the true class, or `ignore_index`.
        ignore_index: The label of predictions that do not count; their loss and gradient are 0.
        backend: "triton" (GPU kernels), "eager" (any device), "reference" (the definition), or
            "auto": "triton" where it can run, otherwise "eager". If None, the value of the
            environment variable FOVEATE_BACKEND, or "auto" if that is not set.

    Returns:
        `(...)`, in float32, or in float64 for such logits. With the kernels, the loss of a label
        that is not an index of the vocabulary is NaN; elsewhere PyTorch raises an error.

    Raises:
        ValueError: If the labels do not match the logits, if the backend is unknown, or if it
            cannot run on these tensors.

    Example:
        >>> import torch
        >>> cross_entropy(torch.tensor([[0.0, 0.0], [1.0, 1.0]]), torch.tensor([0, -100]))
        tensor([0.6931, 0.0000])
    """
    if labels.shape != logits.shape[:-1] or labels.device != logits.device:
        raise ValueError(
            f"labels must be {tuple(logits.shape[:-1])} on {logits.device} to match the logits, "
            f"got {tuple(labels.shape)} on {labels.device}"
        )
    if labels.dtype != torch.int64:
        raise ValueError(f"labels must be torch.int64, got {labels.dtype}")
    backend = choose(backend, logits, widest=None)
    if backend == "triton":
        from . import triton as _triton

        return _triton.cross_entropy(logits, labels, ignore_index)
    logits = widened(logits)
    if backend == "reference":
        return _reference.cross_entropy(logits, labels, ignore_index)
    losses = F.cross_entropy(
        logits.reshape(-1, logits.shape[-1]),
        labels.flatten(),
        ignore_index=ignore_index,
        reduction="none",
    )
    return losses.view(labels.shape)
