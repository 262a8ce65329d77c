"""Layers for CPU inference, in which oneDNN fuses matrix products with what follows them.

torch hands float32 products to MKL, which leaves half of the throughput of some processors unused
(an AMD EPYC with AVX-512: 200 instead of 400 GFLOP/s on two cores), and packs bfloat16 weights anew
for every product. The operators that torch's own compiler uses give products to oneDNN, with
weights that are packed once, and activations and residual connections fused into the products.
float32 results agree within rounding.
"""

from typing import Any

import torch
from torch import Tensor, nn

from foveate.models.tree_bert_network import TreeBertIntermediate, TreeBertResidual

_FREED_BYTES = 31 << 20
"""Bytes that are allocated and freed once, unused, so that batches are faster.

glibc returns freed memory to the system beyond twice the largest block that was freed so far, not
counting those over 32 MiB. A batch's blocks are small, so every layer would get its memory anew
from the system, which clears it first: 75,000 page faults for 931 sentences instead of 20.
"""

GELU_FOLLOWS = torch.backends.cpu.get_cpu_capability() == "AVX2"
"""Whether the exact GELU follows a product instead of being fused into it.

Without AVX-512, oneDNN's takes four times as long as torch's: with it, a product of 2,048 x 384 and
384 x 1,536 takes 23 ms on two cores, and 18 if torch's follows.
"""


def use_onednn(model: nn.Module, dtype: torch.dtype) -> None:
    """Replace a model's linear layers, with what follows them in a TreeBert, in place.

    Nothing is replaced where torch was built without oneDNN or the processor does not compute in
    this dtype.

    Args:
        model: A model on the CPU, in evaluation mode.
        dtype: The dtype of its linear layers.
    """
    if torch.backends.mkldnn.is_available() and _computes_in(dtype):
        torch.empty(_FREED_BYTES, dtype=torch.uint8)
        _replace_parts(model)


def _replace_parts(model: nn.Module) -> None:
    for name, part in model.named_children():
        match part:
            case TreeBertIntermediate(activation=nn.GELU(approximate="none")):
                setattr(model, name, OneDNNLinear(part.dense, activation="gelu"))
            case TreeBertResidual():
                setattr(model, name, OneDNNResidual(part))
            case nn.Linear():
                setattr(model, name, OneDNNLinear(part))
            case _:
                _replace_parts(part)


def _computes_in(dtype: torch.dtype) -> bool:
    if dtype == torch.bfloat16:
        return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
    return dtype == torch.float32


class OneDNNLinear(nn.Module):
    """A linear layer, fused with what follows it.

    Args:
        linear: The layer.
        activation: "none", or "gelu" for the exact GELU.

    Attributes:
        weight: The weight in oneDNN's own layout.
    """

    def __init__(self, linear: nn.Linear, activation: str = "none") -> None:
        super().__init__()
        self.dtype = linear.weight.dtype
        weight = linear.weight.detach()
        self.weight: Tensor = torch.ops.mkldnn._reorder_linear_weight(weight, None)
        self.bias = None if linear.bias is None else linear.bias.detach()
        self.activation = activation

    def forward(self, hidden_states: Tensor, residual: Tensor | None = None) -> Tensor:
        """Apply the layer to `(..., in_features)`, and add the residual if there is one.

        The output has the dtype of the layer, or that of the residual.
        """
        hidden_states = hidden_states.to(self.dtype)
        if residual is not None and residual.dtype == self.dtype:
            fused: Tensor = torch.ops.mkldnn._linear_pointwise.binary(
                hidden_states, residual, self.weight, self.bias, "add"
            )
            return fused
        fused_activation = "none" if GELU_FOLLOWS else self.activation
        output: Tensor = torch.ops.mkldnn._linear_pointwise(
            hidden_states, self.weight, self.bias, fused_activation, [], "none"
        )
        if fused_activation != self.activation:
            torch.ops.aten.gelu_(output)
        return output if residual is None else output.to(residual.dtype).add_(residual)

    def __getstate__(self) -> dict[str, Any]:
        # The weight in oneDNN's own layout can be neither copied nor pickled.
        return {**nn.Module.__getstate__(self), "weight": self.weight.to_dense()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        nn.Module.__setstate__(self, state)
        self.weight = torch.ops.mkldnn._reorder_linear_weight(self.weight, None)


class OneDNNResidual(nn.Module):
    """A `TreeBertResidual` whose sum is fused into its product.

    Args:
        residual: The layer, whose weights are copied.
    """

    def __init__(self, residual: TreeBertResidual) -> None:
        super().__init__()
        self.dense = OneDNNLinear(residual.dense)
        self.LayerNorm = residual.LayerNorm

    def forward(self, hidden_states: Tensor, residual: Tensor) -> Tensor:
        """Project `(tokens, in_features)` and add the input of the layer."""
        output: Tensor = self.LayerNorm(self.dense(hidden_states, residual))
        return output
