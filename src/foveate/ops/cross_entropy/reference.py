"""The definition of cross-entropy."""

import torch
from torch import Tensor


def cross_entropy(logits: Tensor, labels: Tensor, ignore_index: int) -> Tensor:
    """Compute log Σ exp(logits) - logits[label]; see `foveate.ops.cross_entropy`."""
    counts = labels != ignore_index
    logits = torch.where(counts[..., None], logits, 0)
    chosen = logits.gather(-1, torch.where(counts, labels, 0)[..., None])[..., 0]
    return torch.where(counts, logits.logsumexp(-1) - chosen, 0)
