"""CUDA graphs of encoders in inference: captured once for each shape, then launched as one.

Launching many small kernels keeps the host busy for longer than they keep the GPU. With a graph the
host does its part once: later calls copy their inputs to where the graph reads them, and replay it.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from threading import Lock
from typing import Any, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils import _pytree as pytree
from torch.utils.weak import WeakIdKeyDictionary

from foveate.ops._triton.cache import retain_graph_tensors
from foveate.ops.backends import choose
from foveate.ops.tree_attention import Tree

MAX_GRAPHS, MAX_SHAPES = 8, 512
"""How many graphs a module keeps, and how many shapes it remembers: the latest of either."""

Model = TypeVar("Model", bound=nn.Module)
TensorFunction = Callable[..., Tensor]
"""A function of tensors that does not synchronize with the device."""
LayerRunner = Callable[[Tensor, Any, Any], Tensor]
"""What runs the layers of an encoder, see `CapturableEncoder.run_layers`."""


class CapturableEncoder(nn.Module):
    """An encoder whose layers can be launched as one CUDA graph; a mixin.

    Attributes:
        uses_cuda_graphs: Whether they are: set by `capture` and unset by `release`.
        captures_float16: Whether they can be in float16 too.
    """

    uses_cuda_graphs = False
    captures_float16 = True

    @property
    def head_dim(self) -> int:
        """Channels of a head."""
        raise NotImplementedError

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

    def layer_runner(self, like: Tensor, all_hidden_states: Any = None) -> LayerRunner:
        """Choose between `run_layers` and a graph of it.

        The caller calls the result, so that only `run_layers` keeps the input of the layers alive.

        Args:
            like: A tensor with the device and the dtype of the hidden states.
            all_hidden_states: See `run_layers`; a graph is used only if this is None.
        """
        if self.uses_cuda_graphs and all_hidden_states is None and can_replay(self, like):
            return self._replay_layers
        return self.run_layers

    def _replay_layers(
        self, hidden_states: Tensor, layout: Any, all_hidden_states: Any = None
    ) -> Tensor:
        return replay(self, self.run_layers, hidden_states, layout)


class CapturableTreeEncoder(CapturableEncoder):
    """An encoder of packed trees, whose `run_layers` takes a `Tree` as the layout; a mixin.

    Its graphs are not of one tree. The forest of a batch is built before a graph is replayed, which
    is the only time that the host waits for the device, and padded to one of few sizes; the graph
    reads all that depends on its structure from the device.
    """

    def run_on_tree(
        self, hidden_states: Tensor, tree: Tree, all_hidden_states: list[Tensor] | None = None
    ) -> Tensor:
        """Run the layers on `(nodes, d)` in the level order of the tree; see `run_layers`."""
        captures = self.uses_cuda_graphs and all_hidden_states is None
        if not (captures and len(tree) and can_replay(self, hidden_states)):
            return self.run_layers(hidden_states, tree, all_hidden_states)
        bucket = tree.bucket
        if missing := bucket.size - len(tree):
            hidden_states = F.pad(hidden_states, (0, 0, 0, missing))
        return replay(self, self._run_in_bucket, hidden_states, bucket)[: len(tree)]

    def _run_in_bucket(self, hidden_states: Tensor, layout: Any) -> Tensor:
        return self.run_layers(hidden_states, Tree.from_bucket(layout))


def capture(model: Model) -> Model:
    """Launch a model's encoder as one CUDA graph, for models and batches that wait for the host.

    In inference on a GPU, the encoder's kernels are captured when a shape comes for the second
    time, and replayed from then on; elsewhere nothing changes. The latest eight graphs are kept,
    each with the memory that the encoder needs to run. Outputs are the same: of trees, which are
    padded, within rounding, of other models bit for bit.

    The shape includes the length of each sequence without its padding, and its number of global or
    VIP tokens. Trees (HDT and TreeBert) are padded to one of eight sizes between a power of two and
    the next, and a graph serves nearly all batches of that many nodes, whatever their structure.

    Parameters may change, be replaced, moved or cast. Everything else that the host does between
    kernels happens only once: hooks on layers are not called, and adapters that are switched on or
    off and settings of torch, such as the precision of products, stay as they were at the capture.
    Models run as before in training, when split over devices or offloaded; and so do LED and LongT5
    in float16, which look for infinities after every layer.

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
        >>> from foveate.models.accelerate import speed_up
        >>> from foveate.models.accelerate.cuda_graphs import capture
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
    """Undo `capture`, in place, and delete the graphs; other models stay as they are."""
    for module in model.modules():
        if isinstance(module, CapturableEncoder) and module.uses_cuda_graphs:
            del module.uses_cuda_graphs
            _graphs_by_module.pop(module, None)
    return model


def can_replay(encoder: CapturableEncoder, like: Tensor) -> bool:
    """Whether an encoder may run from a graph: in inference, on a GPU, with our kernels.

    Args:
        encoder: The encoder.
        like: A tensor with the device and the dtype of its hidden states.
    """
    if encoder.training or torch.is_grad_enabled():
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
    the module's own tensors are, of autocast, and of everything in the layout that is no tensor.

    Args:
        module: The module whose function it is.
        run: A function that reads no other changing tensors than those of the module.
        hidden_states: On a GPU.
        layout: The layout of the batch, a pytree with tensors on that GPU.

    Returns:
        The output, which the next call does not overwrite.
    """
    device = hidden_states.device
    module_tensors = _tensor_locations(module, hidden_states.get_device())
    if module_tensors is None:
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
        device,
        torch.is_autocast_enabled("cuda"),
        torch.get_autocast_dtype("cuda"),
        module_tensors,
    )

    def run_tensors(states: Tensor, *layout_tensors: Tensor) -> Tensor:
        remaining = iter(layout_tensors)
        filled = [
            next(remaining) if is_one else constant
            for is_one, constant in zip(is_tensor, constants, strict=True)
        ]
        return run(states, pytree.tree_unflatten(filled, spec))

    with torch.cuda.device(device):
        with _lock:
            graphs = _graphs_by_module.setdefault(module, _Graphs())
            graph = graphs.find_or_capture(key, run_tensors, tensors)
        return run(hidden_states, layout) if graph is None else graph(tensors)


def _tensor_locations(module: nn.Module, device_index: int) -> tuple[Hashable, ...] | None:
    """Addresses and dtypes of a module's parameters and buffers.

    None where graphs are impossible: a part is in training, or a tensor is on another device or
    nowhere, as those that hooks fetch. The GPU waits for this at every replay, so it is as short as
    it can be.

    Args:
        module: The module.
        device_index: What `Tensor.get_device` returns for the device.
    """
    tensors: list[Tensor | None] = []
    modules: list[nn.Module | None] = [module]
    for part in modules:  # which grows meanwhile
        if part is None:
            continue
        if part.training:
            return None
        tensors += part._parameters.values()
        tensors += part._buffers.values()
        modules += part._modules.values()
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


class Graph:
    """What a function does to tensors of certain shapes, captured.

    Args:
        function: The function.
        tensors: Inputs with the shapes, dtypes and devices of those to come.
    """

    def __init__(self, function: TensorFunction, tensors: Sequence[Tensor]) -> None:
        self._lock, self._done = Lock(), torch.cuda.Event()
        self._graph = torch.cuda.CUDAGraph()
        stream: Any = torch.cuda.Stream()  # torch declares two kinds, of which graph() takes one
        autocast = torch.autocast(
            "cuda",
            torch.get_autocast_dtype("cuda"),
            torch.is_autocast_enabled("cuda"),
            cache_enabled=False,  # what it caches is freed when the caller's autocast ends
        )
        # Tensors made in inference mode could not be written to outside of it.
        with (
            torch.inference_mode(False),
            torch.no_grad(),
            autocast,
            retain_graph_tensors() as self._retained,
        ):
            self._inputs = [x.clone() for x in tensors]
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):  # builds the tables that are cached for a stream
                function(*self._inputs)
            mode = "thread_local"  # other threads are not affected
            with torch.cuda.graph(self._graph, stream=stream, capture_error_mode=mode):
                self._output = function(*self._inputs)

    def __call__(self, tensors: Sequence[Tensor]) -> Tensor:
        """Replay the graph with other inputs, after any replay on another stream."""
        with self._lock:
            torch.cuda.current_stream().wait_event(self._done)
            for static_input, x in zip(self._inputs, tensors, strict=True):
                static_input.copy_(x)
            self._graph.replay()
            output = self._output.clone()
            self._done.record()
        return output


class _Graphs:
    """The graphs of a module, and the keys it was called with."""

    def __init__(self) -> None:
        self.graphs: OrderedDict[Hashable, Graph] = OrderedDict()
        self.keys: OrderedDict[Hashable, None] = OrderedDict()

    def find_or_capture(
        self, key: Hashable, function: TensorFunction, tensors: Sequence[Tensor]
    ) -> Graph | None:
        """Return the graph of a key, captured at the second call with it; None at the first."""
        if key not in self.graphs:
            if key not in self.keys:  # it may never come again
                self.keys[key] = None
                if len(self.keys) > MAX_SHAPES:
                    self.keys.popitem(last=False)
                return None
            self.graphs[key] = Graph(function, tensors)
            if len(self.graphs) > MAX_GRAPHS:
                self.graphs.popitem(last=False)
        self.graphs.move_to_end(key)
        return self.graphs[key]


_jit: Any = torch.jit  # which does not declare is_tracing as exported
_lock = Lock()
_graphs_by_module = WeakIdKeyDictionary()
"""Kept outside of the modules, so that these can be copied."""
