"""Linear layers in 8-bit floating point, for inference."""

from collections.abc import Sequence
from typing import Any, Never

import torch
from torch import Tensor, nn

from foveate.ops.backends import autocast_dtype
from foveate.ops.float8 import Float8Rows, float8_linear, quantize_rows
from foveate.ops.linear import concatenate


class Float8Linear(nn.Module):
    """A linear layer whose weight is stored, and multiplied, in 8-bit floating point.

    It has no gradients, and is neither saved nor loaded.

    Args:
        linear: The layer that it replaces.
    """

    values: Tensor
    scales: Tensor
    bias: Tensor | None

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.out_features, self.in_features = linear.weight.shape
        values, scales = quantize_rows(linear.weight.detach())
        # As bytes: `Module.to` would cast them to the dtype of a model.
        self.register_buffer("values", values.view(torch.uint8))
        self.register_buffer("scales", scales)
        bias = None if linear.bias is None else linear.bias.detach()
        self.register_buffer("bias", bias)

    def forward(self, hidden_states: Tensor, relu: bool = False) -> Tensor:
        """Apply the layer to `(..., in_features)`, or to their ReLU."""
        (output,) = project_float8(hidden_states, [self], relu=relu)
        return output

    def extra_repr(self) -> str:
        """Describe the layer as `nn.Linear` does."""
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, "
            f"bias={self.bias is not None}"
        )

    def _save_to_state_dict(self, *args: Any, **kwargs: Any) -> Never:
        raise RuntimeError(
            "a model with layers in 8-bit floating point cannot be saved: "
            "save it before use_float8, which takes a moment after loading"
        )

    def _load_from_state_dict(self, *args: Any, **kwargs: Any) -> Never:
        raise RuntimeError(
            "weights cannot be loaded into layers in 8-bit floating point: "
            "load them before use_float8"
        )


def project_float8(
    hidden_states: Tensor, layers: Sequence[Float8Linear], *, relu: bool = False
) -> tuple[Tensor, ...]:
    """Apply layers to the same hidden states, in one product.

    Args:
        hidden_states: `(..., in_features)`.
        layers: The layers, all with biases or all without.
        relu: Whether to apply ReLU to the hidden states first, in the kernel that rounds them.

    Returns:
        For each layer its output `(..., out_features)`, in the dtype that products have.

    Raises:
        RuntimeError: If the hidden states require gradients.
    """
    if torch.is_grad_enabled() and hidden_states.requires_grad:
        raise RuntimeError(
            "layers in 8-bit floating point have no gradients: "
            "call the model in torch.inference_mode(), or train it before use_float8"
        )
    values = concatenate([layer.values for layer in layers]).view(torch.float8_e4m3fn)
    scales = concatenate([layer.scales for layer in layers]).float()
    biases = [layer.bias for layer in layers if layer.bias is not None]
    rows = quantize_rows(hidden_states.reshape(-1, hidden_states.shape[-1]), relu=relu)
    dtype = autocast_dtype(hidden_states)
    joint = float8_linear(
        rows, Float8Rows(values, scales), concatenate(biases) if biases else None, dtype=dtype
    )
    joint = joint.view(*hidden_states.shape[:-1], joint.shape[1])
    outputs: tuple[Tensor, ...] = joint.split([layer.out_features for layer in layers], -1)
    return outputs
