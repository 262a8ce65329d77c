"""The definition of a feed-forward layer with ReLU."""

import torch.nn.functional as F
from torch import Tensor


def relu_feed_forward(x: Tensor, first: Tensor, second: Tensor, dropout: float = 0.0) -> Tensor:
    """Apply the layers one after the other; see `foveate.ops.feed_forward`."""
    return F.dropout((x @ first.T).clamp(min=0), dropout) @ second.T
