"""Linear layers of a model, by fewer kernels where nothing would notice."""

from typing import cast

from torch import Tensor, nn

from foveate.ops.backends import autocast_dtype
from foveate.ops.linear import joint_linear, linear_relu


def project(hidden_states: Tensor, *layers: nn.Module) -> tuple[Tensor, ...]:
    """Apply several linear layers to the same hidden states.

    On a GPU this is one matrix product, if all are plain layers of one dtype, with biases or
    without.

    Args:
        hidden_states: `(..., in_features)`.
        layers: The layers: `nn.Linear`, or what replaces it, such as an adapter.

    Returns:
        For each layer its output `(..., out_features)`.
    """
    if len(layers) > 1 and all(_is_plain(layer, hidden_states) for layer in layers):
        plain = cast(tuple[nn.Linear, ...], layers)
        biases = [layer.bias for layer in plain if layer.bias is not None]
        if len(biases) in (0, len(plain)):
            return joint_linear(hidden_states, [layer.weight for layer in plain], biases or None)
    return tuple(layer(hidden_states) for layer in layers)


def project_heads(hidden_states: Tensor, num_heads: int, *layers: nn.Module) -> tuple[Tensor, ...]:
    """Project to heads, such as those of queries, keys and values; see `project`.

    Args:
        hidden_states: `(..., in_features)`.
        num_heads: The number of heads.
        layers: The layers.

    Returns:
        For each layer its output `(..., heads, head_dim)`.
    """
    return tuple(x.unflatten(-1, (num_heads, -1)) for x in project(hidden_states, *layers))


def project_relu(hidden_states: Tensor, layer: nn.Module, activation: nn.Module) -> Tensor:
    """Apply a linear layer and an activation; on a GPU a plain layer and ReLU are one kernel.

    Args:
        hidden_states: `(..., in_features)`.
        layer: The layer.
        activation: The activation.

    Returns:
        `(..., out_features)`.
    """
    is_relu = type(activation) is nn.ReLU and not _is_changed(activation)
    if is_relu and _is_plain(layer, hidden_states) and layer.bias is None:
        return linear_relu(hidden_states, cast(nn.Linear, layer).weight)
    output: Tensor = activation(layer(hidden_states))
    return output


def _is_plain(layer: nn.Module, hidden_states: Tensor) -> bool:
    """Whether a layer does nothing but a product with its weight, on a GPU.

    Adapters, quantized layers, layers with hooks and layers whose `forward` was replaced have to be
    called themselves.
    """
    if not _joins(hidden_states) or type(layer) is not nn.Linear or _is_changed(layer):
        return False
    weight = layer.weight
    if type(weight) not in (nn.Parameter, Tensor) or weight.device != hidden_states.device:
        return False
    return autocast_dtype(weight) == autocast_dtype(hidden_states)


def _is_changed(module: nn.Module) -> bool:
    """Whether calling a module does something besides, or instead of, its class's `forward`."""
    hooks = (
        module._forward_pre_hooks,
        module._forward_hooks,
        module._backward_pre_hooks,
        module._backward_hooks,
    )
    return any(hooks) or "forward" in vars(module) or nn.modules.module._has_any_global_hook()


def _joins(hidden_states: Tensor) -> bool:
    """Whether fewer kernels pay off."""
    return hidden_states.is_cuda
