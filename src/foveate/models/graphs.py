"""CUDA graphs of encoders in inference: captured once for each shape, then launched as one.

Many small kernels keep the host busy longer than the GPU. A graph has the host do its part once:
later calls copy their inputs to where the graph reads them, and replay it.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.utils.weak import WeakIdKeyDictionary

CAPTURED: dict[type[nn.Module], type[nn.Module]] = {}
"""Encoders, and the subclass of each that replays graphs; where those are defined, they say so."""

Model = TypeVar("Model", bound=nn.Module)
Function = Callable[..., Tensor]
"""Of tensors; it waits for the device nowhere."""

LIMIT = 8
"""Graphs that a module keeps, the latest used."""

_graphs = WeakIdKeyDictionary()
"""Of each module, by what they depend on; beside the modules, so that these can be copied."""


def capture(model: Model) -> Model:
    """Have a model's encoder launched as one CUDA graph, where the host is what takes the time.

    From the second call with the same shapes on, the encoder's kernels are replayed instead of
    called, in inference on a GPU; elsewhere nothing changes. Outputs are the same. A sequence's
    length, its number of global tokens and the batch are part of the shape; the latest eight graphs
    are kept, each with the memory that the encoder needs to run.

    What the host does between kernels happens once: hooks on layers are not called, and a layer
    that changes what it does, but not its parameters, goes unnoticed.

    Args:
        model: an accelerated Longformer or a Fovea model, alone or in a larger one; changed in
            place. `restore` undoes it.

    Returns:
        The model.

    Raises:
        ValueError: there is no such encoder in it.

    Example:
        >>> from transformers import LongformerConfig, LongformerModel
        >>> from foveate import accelerate, capture
        >>> config = LongformerConfig(
        ...     vocab_size=50, hidden_size=16, num_attention_heads=2, num_hidden_layers=1,
        ...     intermediate_size=32, attention_window=4,
        ... )
        >>> type(capture(accelerate(LongformerModel(config))).encoder).__name__
        'CapturedLongformerEncoder'
    """
    modules = [module for module in model.modules() if type(module) in CAPTURED]
    if not modules and not any(type(module) in CAPTURED.values() for module in model.modules()):
        raise ValueError(
            f"there is no encoder to capture in a {type(model).__name__}: capture an accelerated "
            "Longformer (foveate.accelerate comes first) or a Fovea model"
        )
    for module in modules:
        module.__class__ = CAPTURED[type(module)]
    return model


def release(model: nn.Module) -> None:
    """Undo `capture`, in place, and forget the graphs."""
    before = {captured: encoder for encoder, captured in CAPTURED.items()}
    for module in model.modules():
        if type(module) in before:
            module.__class__ = before[type(module)]
            _graphs.pop(module, None)


def can_replay(module: nn.Module, rows: Tensor) -> bool:
    """Whether a module's next call may come from a graph: in inference, on a GPU."""
    return rows.is_cuda and not (
        module.training or torch.is_grad_enabled() or torch.compiler.is_compiling()
    )


def replay(
    module: nn.Module, function: Function, tensors: Sequence[Tensor], options: Hashable
) -> Tensor:
    """Compute `function(*tensors)` of a module: at first as it is, later from a graph.

    Graphs differ by the shapes, dtypes and devices of the tensors, by where the module's parameters
    are, by autocast, and by `options`: all else that `function` depends on.

    Args:
        module: whose function it is.
        function: reads no other tensors that change than those of the module.
        tensors: on one GPU.
        options: see above.

    Returns:
        The output, which the next call does not touch.
    """
    device = tensors[0].device
    key = (
        *(options, device, torch.is_autocast_enabled("cuda"), torch.get_autocast_dtype("cuda")),
        *((x.shape, x.dtype) for x in tensors),
        *(parameter.data_ptr() for parameter in module.parameters()),
    )
    graphs: OrderedDict[Hashable, Graph | None] = _graphs.setdefault(module, OrderedDict())
    with torch.cuda.device(device):
        if key not in graphs:  # it may not come again
            graphs[key] = None
            while len(graphs) > LIMIT:
                graphs.popitem(last=False)
            return function(*tensors)
        graphs.move_to_end(key)
        graph = graphs[key] or Graph(function, tensors)
        graphs[key] = graph
        return graph(tensors)


class Graph:
    """A function of tensors of certain shapes, recorded.

    Args:
        function: what to record.
        tensors: inputs like those to come.
    """

    def __init__(self, function: Function, tensors: Sequence[Tensor]) -> None:
        self._graph = torch.cuda.CUDAGraph()
        # What is made in inference mode could not be written to outside of it.
        with torch.inference_mode(False), torch.no_grad():
            self._inputs = [x.clone() for x in tensors]
            stream: Any = torch.cuda.Stream()
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):  # tables that are made at first belong to the stream
                function(*self._inputs)
            with torch.cuda.graph(self._graph, stream=stream):
                self._output = function(*self._inputs)

    def __call__(self, tensors: Sequence[Tensor]) -> Tensor:
        """Replay the graph with other inputs."""
        for place, x in zip(self._inputs, tensors, strict=True):
            place.copy_(x)
        self._graph.replay()
        return self._output.clone()
