"""Layers for CPU inference, in which oneDNN fuses matrix products with what follows them.

torch hands float32 products to MKL, which leaves half of the throughput of some processors unused
(an AMD EPYC with AVX-512: 200 instead of 400 GFLOP/s on two cores), and packs bfloat16 weights anew
for every product. The operators that torch's own compiler uses give products to oneDNN, with
weights that are packed once, and activations and residual connections fused into the products.
float32 results agree within rounding.
"""

from typing import Any, cast

import torch
from torch import Tensor, nn

from foveate.models.tree_bert_network import TreeBertEncoder, TreeBertLayer

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
    """Replace a model's linear layers, and whole TreeBert layers, in place.

    Nothing is replaced where torch was built without oneDNN or the processor does not compute in
    this dtype.

    Args:
        model: A model on the CPU, in evaluation mode.
        dtype: The dtype of its linear layers.
    """
    if not (torch.backends.mkldnn.is_available() and _computes_in(dtype)):
        return
    torch.empty(_FREED_BYTES, dtype=torch.uint8)
    for module in list(model.modules()):
        if isinstance(module, TreeBertEncoder):
            module.layer = nn.ModuleList(map(_fused, cast(list[TreeBertLayer], module.layer)))
    for parent in list(model.modules()):
        for name, child in parent.named_children():
            if isinstance(child, nn.Linear):
                setattr(parent, name, OneDNNLinear(child))


def _computes_in(dtype: torch.dtype) -> bool:
    if dtype == torch.bfloat16:
        return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
    return dtype == torch.float32


def _fused(layer: TreeBertLayer) -> nn.Module:
    gelu = layer.intermediate.activation
    is_gelu = isinstance(gelu, nn.GELU) and gelu.approximate == "none"
    return OneDNNTreeBertLayer(layer) if is_gelu else layer


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


class OneDNNTreeBertLayer(nn.Module):
    """What a `TreeBertLayer` computes before and after its attention.

    Args:
        layer: The layer, whose weights are copied.
    """

    def __init__(self, layer: TreeBertLayer) -> None:
        super().__init__()
        attention = layer.attention.self
        self.num_heads = attention.num_heads
        self.qkv = OneDNNLinear(attention.qkv)
        self.attention_output = OneDNNLinear(layer.attention.output.dense)
        self.attention_norm = layer.attention.output.LayerNorm
        self.intermediate = OneDNNLinear(layer.intermediate.dense, activation="gelu")
        self.output = OneDNNLinear(layer.output.dense)
        self.output_norm = layer.output.LayerNorm

    def project(self, hidden_states: Tensor) -> tuple[Tensor, ...]:
        """Compute queries, keys and values `(nodes, heads, head_dim)`."""
        projected: Tensor = self.qkv(hidden_states).unflatten(-1, (3, self.num_heads, -1))
        return projected.unbind(-3)

    def finish(self, attended: Tensor, hidden_states: Tensor) -> Tensor:
        """Apply what follows the attention `(nodes, heads, head_dim)`, to every node by itself."""
        hidden_states = self.attention_norm(
            self.attention_output(attended.flatten(1), hidden_states)
        )
        expanded = self.intermediate(hidden_states)
        output: Tensor = self.output_norm(self.output(expanded, hidden_states))
        return output
