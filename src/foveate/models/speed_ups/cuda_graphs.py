"""CUDA graphs of encoders: captured once for each shape, then replayed.

Launching many small kernels keeps the host busy for longer than they keep the GPU. With a graph the
host does its part once: later calls copy their inputs to where the graph reads them, and replay it.
Where gradients are wanted, a second graph computes them; see `graph_capture.py`.
"""

from collections.abc import Callable, Hashable, Sequence
from itertools import chain
from threading import Lock
from typing import Any, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils import _pytree as pytree
from torch.utils.weak import WeakIdKeyDictionary

from foveate.ops.backends import choose
from foveate.ops.tree_attention import Tree

from .graph_capture import Graph, GraphCache, TensorFunction, TrainingGraph, TrainingGraphs

MAX_PADDED_ELEMENTS = 2**24
"""Entries of the largest hidden states that are padded to be captured: 21,845 nodes of width 768.

Beyond them the GPU takes longer than any host, and a graph would only add the padding. At 16,384
nodes an HDT takes the GPU 6 to 11 % longer with it, but a slow host twice as long without a graph;
on ragged batches of as many tokens, such a host is 1.1 to 2.2 times as fast with it (Longformer,
LED and LongT5).
"""

Model = TypeVar("Model", bound=nn.Module)
LayerRunner = Callable[[Tensor, Any, Any], Tensor]
"""What runs the layers of an encoder, see `CapturableEncoder.run_layers`."""


class CapturableEncoder(nn.Module):
    """An encoder whose layers can be launched as one CUDA graph; a mixin.

    Attributes:
        uses_cuda_graphs: Whether graphs are used: set by `capture` and unset by `release`.
        captures_float16: Whether graphs can be used in float16 too.
    """

    config: Any
    uses_cuda_graphs = False
    captures_float16 = True

    @property
    def captures_training(self) -> bool:
        """Whether every training step launches the same kernels."""
        return True

    @property
    def head_dim(self) -> int:
        """Channels of a head."""
        width = getattr(self.config, "d_kv", None)  # of T5 and its relatives
        return int(width or self.config.hidden_size // self.config.num_attention_heads)

    def run_layers(
        self, hidden_states: Tensor, layout: Any, all_hidden_states: Any = None
    ) -> Tensor:
        """Apply the layers without synchronizing with the device.

        Args:
            hidden_states: The input of the layers.
            layout: The layout of the batch, see `replay`.
            all_hidden_states: What records hidden states, mostly a list to which the input of each
                layer is appended; None to record none.
        """
        raise NotImplementedError

    def layer_runner(
        self, like: Tensor, num_elements: int, all_hidden_states: Any = None
    ) -> tuple[LayerRunner, bool]:
        """Choose between `run_layers` and a graph of it.

        The caller calls the result, so that only `run_layers` keeps the input of the layers alive.

        Args:
            like: A tensor with the device and the dtype of the hidden states.
            num_elements: Number of elements of the hidden states.
            all_hidden_states: See `run_layers`; a graph is used only if this is None.

        Returns:
            What runs the layers; and whether to pad the batch first, so that one graph serves
            batches of similar size.
        """
        if not self.uses_cuda_graphs or all_hidden_states is not None or not can_replay(self, like):
            return self.run_layers, False
        return self._replay_layers, 0 < num_elements <= MAX_PADDED_ELEMENTS

    def _replay_layers(
        self, hidden_states: Tensor, layout: Any, all_hidden_states: Any = None
    ) -> Tensor:
        return replay(self, self.run_layers, hidden_states, layout)


class CapturableTreeEncoder(CapturableEncoder):
    """An encoder of packed trees, whose `run_layers` takes a `Tree` as the layout; a mixin.

    A graph is not tied to one tree. The forest of a batch is built before a graph is replayed,
    which is the only time that the host waits for the device, and padded to one of a few sizes; the
    graph reads everything that depends on its structure from the device. Trees that keep the GPU
    busy for longer than the host run without a graph.
    """

    def run_on_tree(
        self, hidden_states: Tensor, tree: Tree, all_hidden_states: list[Tensor] | None = None
    ) -> Tensor:
        """Run the layers on `(nodes, d)` in the level order of the tree; see `run_layers`."""
        _, pads = self.layer_runner(hidden_states, hidden_states.numel(), all_hidden_states)
        if not pads:
            return self.run_layers(hidden_states, tree, all_hidden_states)
        if missing := len(tree.padded) - len(tree):
            hidden_states = F.pad(hidden_states, (0, 0, 0, missing))
        return replay(self, self.run_layers, hidden_states, tree.padded)[: len(tree)]


def capture(model: Model) -> Model:
    """Launch a model's encoder as one CUDA graph, for models and batches that are host-bound.

    On a GPU, the encoder's kernels are captured when a shape occurs for the second time, and
    replayed from then on; elsewhere nothing changes. In training, with `Trainer` or any other loop,
    so are the kernels that compute its gradients. The latest eight graphs of inference are kept,
    each with the memory that the encoder needs to run. Those of training share memory, up to eight;
    then the next shape replaces them all. Outputs are the same, bit for bit or, where a batch is
    padded, within rounding.

    Batches are padded to one of a few sizes, so that a graph serves nearly all batches of about
    that size, whatever their lengths or structure; up to `MAX_PADDED_ELEMENTS`, 21,845 tokens of
    width 768. Beyond that, where the GPU is the bottleneck, trees (HDT and TreeBert) are not
    captured, and in other models the shape includes the length of each sequence without its
    padding, as it always does in Fovea, and in VCC the number of its VIP tokens. In Longformer and
    LED it always includes the number of global tokens.

    Parameters may change, be replaced, moved or cast. Everything else that the host does between
    kernels happens only once: hooks on layers are not called, and adapters that are switched on or
    off and settings of torch, such as the precision of products, stay as they were at the capture.
    Models run as before when split over devices or offloaded, with gradient checkpointing or
    LayerDrop, where a second batch is encoded before the gradients of the first are computed, and
    LED and LongT5 in float16, which look for infinities after every layer.

    Args:
        model: A Longformer, an LED or a LongT5 after `speed_up`, or an HDT, a TreeBert, a Fovea or
            a VCC model, alone or as a part of a larger model; changed in place. Of an
            encoder-decoder, the encoder is captured; of TreeBert, all but its heads.

    Returns:
        The model.

    Raises:
        ValueError: The model has no such encoder.

    Example:
        >>> from transformers import LongformerConfig, LongformerModel
        >>> from foveate.models.speed_ups import speed_up
        >>> from foveate.models.speed_ups.cuda_graphs import capture
        >>> config = LongformerConfig(
        ...     vocab_size=50, hidden_size=16, num_attention_heads=2, num_hidden_layers=1,
        ...     intermediate_size=32, attention_window=4,
        ... )
        >>> capture(speed_up(LongformerModel(config))).encoder.uses_cuda_graphs
        True
    """
    encoders = [module for module in model.modules() if isinstance(module, CapturableEncoder)]
    if not encoders:
        raise ValueError(
            f"there is no encoder to capture in a {type(model).__name__}: capture a Longformer, "
            "an LED or a LongT5 after speed_up, or an HDT, a TreeBert, a Fovea or a VCC model"
        )
    for encoder in encoders:
        encoder.uses_cuda_graphs = True
    return model


def release(model: Model) -> Model:
    """Undo `capture` in place, and delete the graphs; leave other models unchanged."""
    for module in model.modules():
        if isinstance(module, CapturableEncoder) and module.uses_cuda_graphs:
            del module.uses_cuda_graphs
            _graphs_by_module.pop(module, None)
            _training_graphs_by_module.pop(module, None)
    return model


def can_replay(encoder: CapturableEncoder, like: Tensor) -> bool:
    """Return whether an encoder may run from a graph: on a GPU, with our kernels.

    Args:
        encoder: The encoder.
        like: A tensor with the device and the dtype of its hidden states.
    """
    if encoder.training and not (torch.is_grad_enabled() and encoder.captures_training):
        return False
    if torch.compiler.is_compiling() or _jit.is_tracing():
        return False
    if not like.is_cuda or torch.cuda.is_current_stream_capturing():
        return False
    if like.dtype == torch.float16 and not encoder.captures_float16:
        return False
    return choose(None, like[..., : encoder.head_dim]) == "triton"


def replay(
    module: nn.Module, run: Callable[[Tensor, Any], Tensor], hidden_states: Tensor, layout: Any
) -> Tensor:
    """Compute `run(hidden_states, layout)`: the first time directly, later from a graph.

    There is a graph for each combination of the shapes, dtypes and devices of the tensors, of where
    the module's own tensors are, of autocast, and of everything in the layout that is not a tensor.
    Where gradients are enabled and something requires them, the graph computes them too.

    Args:
        module: The module that `run` belongs to.
        run: A function that reads no changing tensors other than those of the module.
        hidden_states: On a GPU.
        layout: The layout of the batch, a pytree with tensors on that GPU.

    Returns:
        The output, which the next call does not overwrite.
    """
    parts = _parts(module)
    locations = _tensor_locations(parts, hidden_states.get_device())
    if locations is None:
        return run(hidden_states, layout)
    leaves, spec = pytree.tree_flatten(layout)
    is_tensor = [isinstance(leaf, Tensor) for leaf in leaves]
    tensors = [hidden_states, *(leaf for leaf in leaves if isinstance(leaf, Tensor))]
    constants = tuple(None if isinstance(leaf, Tensor) else leaf for leaf in leaves)
    key = (
        spec,
        constants,
        tuple(is_tensor),
        tuple((x.shape, x.dtype) for x in tensors),
        hidden_states.device,
        torch.is_autocast_enabled("cuda"),
        torch.get_autocast_dtype("cuda"),
        locations,
    )

    def run_tensors(states: Tensor, *layout_tensors: Tensor) -> Tensor:
        remaining = iter(layout_tensors)
        filled = [
            next(remaining) if is_one else constant
            for is_one, constant in zip(is_tensor, constants, strict=True)
        ]
        return run(states, pytree.tree_unflatten(filled, spec))

    with torch.cuda.device(hidden_states.device):
        output = None
        if _needs_gradients(module, tensors):
            output = _replay_with_gradients(module, parts, run_tensors, tensors, key)
        elif not any(part.training for part in parts):
            with _lock:
                graphs = _graphs_by_module.setdefault(module, GraphCache())
                graph = graphs.find_or_capture(key, lambda: Graph(run_tensors, tensors))
            output = None if graph is None else graph(tensors)
        return run(hidden_states, layout) if output is None else output


def _replay_with_gradients(
    module: nn.Module,
    parts: Sequence[nn.Module],
    function: TensorFunction,
    tensors: Sequence[Tensor],
    key: Hashable,
) -> Tensor | None:
    """Compute `function(*tensors)` from a graph, with gradients; None if there is none."""
    recomputes = any(
        part.training and getattr(part, "gradient_checkpointing", False) for part in parts
    )
    first, *others = tensors
    parameters = list(
        {
            id(parameter): parameter
            for part in parts
            for parameter in part._parameters.values()
            if parameter is not None and parameter.requires_grad
        }.values()
    )
    if recomputes or any(x.requires_grad for x in others):
        return None
    key = (
        key,
        first.requires_grad,
        tuple(map(id, parameters)),
        tuple(part.training for part in parts),
    )
    with _lock:
        graphs = _training_graphs_by_module.get(module)
        if graphs is None:
            graphs = _training_graphs_by_module[module] = TrainingGraphs(first.device)
        if not graphs.may_begin(first.device):
            return None
        graph = graphs.find_or_capture(
            key,
            lambda: TrainingGraph(
                function,
                tensors,
                module,
                parameters,
                graphs.gradients(parameters),
                graphs.pool,
            ),
        )
        return None if graph is None else graphs.run(graph, tensors, parameters)


def _needs_gradients(module: nn.Module, tensors: Sequence[Tensor]) -> bool:
    """Return whether gradients are enabled, and an input or a parameter requires them."""
    return torch.is_grad_enabled() and any(
        x.requires_grad for x in chain(tensors, module.parameters())
    )


def _parts(module: nn.Module) -> list[nn.Module]:
    """List the module and all of its parts, a shared one as often as it occurs."""
    parts = [module]
    for part in parts:  # which grows meanwhile
        parts += [child for child in part._modules.values() if child is not None]
    return parts


def _tensor_locations(parts: Sequence[nn.Module], device_index: int) -> tuple[Hashable, ...] | None:
    """Return the addresses and dtypes of the parameters and buffers of a module's parts.

    None where graphs are impossible: a tensor is on another device or nowhere, as those that hooks
    fetch. The GPU waits for this at every replay, so it is as short as it can be.

    Args:
        parts: The module and all of its parts.
        device_index: What `Tensor.get_device` returns for the device.
    """
    tensors: list[Tensor | None] = []
    for part in parts:
        tensors += part._parameters.values()
        tensors += part._buffers.values()
    locations: list[Hashable] = []
    for x in tensors:
        if x is None:
            continue
        address = x.data_ptr()
        if address and x.get_device() == device_index:
            locations += address, x.dtype
        elif x.numel():
            return None
    return tuple(locations)


_jit: Any = torch.jit  # which does not declare is_tracing as exported
_lock = Lock()
_graphs_by_module = WeakIdKeyDictionary()
_training_graphs_by_module = WeakIdKeyDictionary()
"""Kept outside of the modules, so that these can be copied."""
