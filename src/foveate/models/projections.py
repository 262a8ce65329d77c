"""Linear layers of a model, in fewer kernels where that makes no other difference."""

from typing import cast

import torch
from torch import Tensor, nn

from foveate.ops.backends import autocast_dtype
from foveate.ops.feed_forward import relu_feed_forward


def project_heads(hidden_states: Tensor, num_heads: int, *layers: nn.Module) -> tuple[Tensor, ...]:
    """Project to heads by separate layers, such as transformers' of queries, keys and values.

    Args:
        hidden_states: `(..., in_features)`.
        num_heads: The number of heads.
        layers: The layers.

    Returns:
        For each layer its output `(..., heads, head_dim)`.
    """
    return tuple(layer(hidden_states).unflatten(-1, (num_heads, -1)) for layer in layers)


def feed_forward(
    hidden_states: Tensor,
    first: nn.Module,
    activation: nn.Module,
    second: nn.Module,
    dropout: nn.Dropout,
) -> Tensor:
    """Apply two linear layers with an activation and dropout between them.

    On a GPU, plain layers and ReLU are fused.

    Args:
        hidden_states: `(..., in_features)`.
        first: The layer before the activation.
        activation: The activation.
        second: The layer after it.
        dropout: The dropout, see `drop`.

    Returns:
        `(..., out_features)`.
    """
    if _is_plain_feed_forward(hidden_states, first, activation, second, dropout):
        weights = cast(Tensor, first.weight), cast(Tensor, second.weight)
        return relu_feed_forward(hidden_states, *weights, dropout.p if dropout.training else 0.0)
    inner = drop(dropout, activation(first(hidden_states)))
    output: Tensor = second(to_weight_dtype(inner, second))
    return output


def _is_plain_feed_forward(
    hidden_states: Tensor,
    first: nn.Module,
    activation: nn.Module,
    second: nn.Module,
    dropout: nn.Dropout,
) -> bool:
    """Return whether two layers do nothing but products with ReLU and dropout between them."""
    return (
        _is_plain(first, hidden_states)
        and _is_plain(second, hidden_states)
        and type(activation) is nn.ReLU
        and type(dropout) is nn.Dropout
        and not _is_changed(activation)
        and not _is_changed(dropout)
    )


_COMPUTED = torch.float16, torch.bfloat16, torch.float32, torch.float64


def to_weight_dtype(hidden_states: Tensor, layer: nn.Module) -> Tensor:
    """Cast to the dtype of a layer's weight: T5 keeps one in float32 in models of float16.

    Args:
        hidden_states: `(..., in_features)`.
        layer: The layer, which need not have a weight.

    Returns:
        `(..., in_features)`; inside `torch.autocast`, which casts later, unchanged.
    """
    weight = getattr(layer, "weight", None)
    if torch.is_autocast_enabled(hidden_states.device.type) or not isinstance(weight, Tensor):
        return hidden_states
    return hidden_states.to(weight.dtype) if weight.dtype in _COMPUTED else hidden_states


def drop(dropout: nn.Dropout, x: Tensor) -> Tensor:
    """Apply dropout in training; in inference, skip the call, which would only take time."""
    output: Tensor = dropout(x) if dropout.training else x
    return output


def _is_plain(layer: nn.Module, hidden_states: Tensor) -> bool:
    """Return whether a layer does nothing but a product with its weight, on a GPU.

    Adapters, quantized layers, layers with hooks and layers whose `forward` was replaced have to be
    called themselves.
    """
    if not _joins(hidden_states) or type(layer) is not nn.Linear or _is_changed(layer):
        return False
    weight = layer.weight
    is_tensor = type(weight) is nn.Parameter or type(weight) is Tensor
    if layer.bias is not None or not is_tensor or weight.device != hidden_states.device:
        return False
    return weight.dtype == hidden_states.dtype or (
        autocast_dtype(weight) == autocast_dtype(hidden_states)
    )


def _is_changed(module: nn.Module) -> bool:
    """Return whether calling a module runs anything other than its class's `forward`.

    Args:
        module: A module, which may have hooks or a `forward` of its own.
    """
    return bool(
        module._forward_pre_hooks
        or module._forward_hooks
        or module._backward_pre_hooks
        or module._backward_hooks
        or "forward" in module.__dict__
        or nn.modules.module._has_any_global_hook()
    )


def _joins(x: Tensor) -> bool:
    """Return whether fewer kernels pay off on the device of a tensor."""
    return x.is_cuda
