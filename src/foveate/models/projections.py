"""Linear layers of a model, by fewer kernels where nothing would notice."""

from torch import Tensor, nn

from foveate.ops.backends import autocast
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
    if hidden_states.is_cuda:
        states = autocast(hidden_states)
        weights = [_plain_weight(layer, states) for layer in layers]
        biases = [getattr(layer, "bias", None) for layer in layers]
        plain = [autocast(weight) for weight in weights if weight is not None]
        present = [autocast(bias) for bias in biases if bias is not None]
        if len(plain) == len(layers) and len(present) in (0, len(layers)):
            return joint_linear(states, plain, present or None)
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
    if hidden_states.is_cuda and type(activation) is nn.ReLU and layer.bias is None:
        states = autocast(hidden_states)
        weight = _plain_weight(layer, states)
        if weight is not None:
            return linear_relu(states, autocast(weight))
    output: Tensor = activation(layer(hidden_states))
    return output


def _plain_weight(layer: nn.Module, hidden_states: Tensor) -> Tensor | None:
    """Return the weight of a layer that does nothing but a product with it, otherwise None.

    Adapters, quantized layers, layers with hooks and layers whose `forward` was replaced have to be
    called themselves.
    """
    if type(layer) is not nn.Linear or "forward" in vars(layer):
        return None
    hooks = layer._forward_pre_hooks, layer._forward_hooks, layer._backward_pre_hooks
    if any(hooks) or layer._backward_hooks:
        return None
    weight = layer.weight
    if type(weight) not in (nn.Parameter, Tensor) or not weight.is_cuda:
        return None
    return weight if autocast(weight).dtype == hidden_states.dtype else None
