"""The definition of cross-entropy."""

import torch
from torch import Tensor


def cross_entropy(logits: Tensor, labels: Tensor, ignore_index: int) -> Tensor:
    """Compute -log of the probability of each label; see `foveate.ops.cross_entropy`."""
    counts = labels != ignore_index
    probabilities = logits.exp() / logits.exp().sum(-1, keepdim=True)
    chosen = probabilities.gather(-1, torch.where(counts, labels, 0)[..., None])[..., 0]
    return torch.where(counts, -chosen.log(), 0)
