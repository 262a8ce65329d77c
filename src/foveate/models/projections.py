"""Linear layers and norms of a model, in fewer kernels where that makes no other difference."""

from collections import Counter, defaultdict
from itertools import chain
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.utils import dlpack

from foveate.ops.backends import autocast_dtype, autocasts
from foveate.ops.layer_norm import add_layer_norm
from foveate.ops.linear import joint_linear, lay_side_by_side, linear_relu, relu_feed_forward


def project(hidden_states: Tensor, *layers: nn.Module) -> tuple[Tensor, ...]:
    """Apply one or several linear layers to the same hidden states.

    On a GPU this is one matrix product, if all are plain layers of one dtype, with biases or
    without, and the gradients of their biases are products too.

    Args:
        hidden_states: `(..., in_features)`.
        layers: The layers: `nn.Linear`, or what replaces it, such as an adapter.

    Returns:
        For each layer its output `(..., out_features)`; those of several layers are views of one
        tensor.
    """
    if all(is_plain(layer, hidden_states) for layer in layers):
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
    """Apply a linear layer and an activation; on a GPU, a plain layer and ReLU are fused.

    Args:
        hidden_states: `(..., in_features)`.
        layer: The layer.
        activation: The activation.

    Returns:
        `(..., out_features)`.
    """
    if _is_relu(activation) and is_plain(layer, hidden_states) and layer.bias is None:
        return linear_relu(hidden_states, cast(nn.Linear, layer).weight)
    output: Tensor = activation(layer(hidden_states))
    return output


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
    inner = drop(dropout, project_relu(hidden_states, first, activation))
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
    layers = first, second
    if not all(is_plain(layer, hidden_states) and layer.bias is None for layer in layers):
        return False
    return _is_relu(activation) and type(dropout) is nn.Dropout and not is_changed(dropout)


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


def add_and_norm(hidden_states: Tensor, update: Tensor, layer: nn.LayerNorm) -> Tensor:
    """Normalize a sum, as at the end of a residual connection; on a GPU in one kernel.

    Args:
        hidden_states: `(..., channels)`.
        update: What is added to it, of the same shape.
        layer: The norm.

    Returns:
        `(..., channels)`.
    """
    if _adds_in_one_kernel(hidden_states, update, layer):
        return add_layer_norm(hidden_states, update, layer.weight, layer.bias, layer.eps)
    output: Tensor = layer(hidden_states + update)
    return output


def _adds_in_one_kernel(hidden_states: Tensor, update: Tensor, layer: nn.Module) -> bool:
    """Return whether a plain norm can add what it normalizes, with the same dtype of the output."""
    if not _joins(hidden_states) or type(layer) is not nn.LayerNorm or is_changed(layer):
        return False
    dtype = hidden_states.dtype
    if update.shape != hidden_states.shape or torch.promote_types(dtype, update.dtype) != dtype:
        return False
    if autocasts(hidden_states.device.type) and dtype != torch.float32:
        return False  # autocast computes norms in float32
    vectors = layer.weight, layer.bias
    return all(
        type(x) in (nn.Parameter, Tensor)
        and x.shape == hidden_states.shape[-1:]
        and x.dtype == dtype
        and x.device == update.device == hidden_states.device
        for x in vectors
    )


_dlpack: Any = dlpack  # which does not declare its functions as exported


def lay_out_weights(model: nn.Module) -> None:
    """Place the weights of layers that may share an input side by side in memory, in place.

    Otherwise `project` copies them for every product. They stay there until they are moved to
    another device or dtype, or replaced. Nothing else changes: weights are trained, loaded and
    saved as before. Only weights on a GPU are moved.

    Args:
        model: A model, on the device where it will run. A tensor that shares memory with another
            one, or is part of a larger one, is not moved.
    """
    movable = [x for x in chain(model.parameters(), model.buffers()) if _can_be_moved(x)]
    holders = Counter(x.data_ptr() for x in movable)
    for parent in model.modules():
        readers: dict[int, list[nn.Module]] = defaultdict(list)
        for layer in parent.children():
            if type(layer) is nn.Linear:
                readers[layer.in_features].append(layer)
        for layers in readers.values():
            for name in ("weight", "bias"):
                tensors = [getattr(layer, name) for layer in layers]
                if not all(_can_be_moved(x) and holders[x.data_ptr()] == 1 for x in tensors):
                    continue
                if len(tensors) > 1 and len({(x.dtype, x.device) for x in tensors}) == 1:
                    lay_side_by_side(tensors)
                    for layer in layers:
                        layer.register_state_dict_post_hook(_separate_storages)


def _can_be_moved(x: Tensor | None) -> bool:
    """Return whether a tensor is all that its storage holds, and can be given another one."""
    if x is None or type(x) not in (nn.Parameter, Tensor) or not _joins(x) or x.is_inference():
        return False
    return x.is_contiguous() and x.untyped_storage().nbytes() == x.nbytes


def _separate_storages(layer: nn.Module, state: dict[str, Any], prefix: str, _: Any) -> None:
    """Give each tensor in the state of a layer a storage of its own, in the same memory.

    Libraries that save models take tensors with one storage for the same weight under several
    names: accelerate would save the first and drop the others.
    """
    for name in ("weight", "bias"):
        tensor = state.get(prefix + name)
        if type(tensor) is Tensor and tensor.untyped_storage().nbytes() != tensor.nbytes:
            state[prefix + name] = _dlpack.from_dlpack(_dlpack.to_dlpack(tensor))


def drop(dropout: nn.Dropout, x: Tensor) -> Tensor:
    """Apply dropout in training; in inference, skip the call, which would only take time."""
    output: Tensor = dropout(x) if dropout.training else x
    return output


def is_plain(layer: nn.Module, hidden_states: Tensor) -> bool:
    """Return whether a layer does nothing but a product with its weight, and a bias, on a GPU.

    Adapters, quantized layers, layers with hooks and layers whose `forward` was replaced have to be
    called themselves.
    """
    if not _joins(hidden_states) or type(layer) is not nn.Linear or is_changed(layer):
        return False
    weight = layer.weight
    is_tensor = type(weight) is nn.Parameter or type(weight) is Tensor
    if not is_tensor or weight.device != hidden_states.device:
        return False
    return weight.dtype == hidden_states.dtype or (
        autocast_dtype(weight) == autocast_dtype(hidden_states)
    )


def _is_relu(activation: nn.Module) -> bool:
    return type(activation) is nn.ReLU and not is_changed(activation)


def is_changed(module: nn.Module) -> bool:
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
