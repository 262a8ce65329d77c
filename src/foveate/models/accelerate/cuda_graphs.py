"""CUDA graphs of encoders in inference: captured once for each shape, then launched as one.

Many small kernels keep the host busy longer than the GPU. A graph has the host do its part once:
later calls copy their inputs to where the graph reads them, and replay it.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import fields, is_dataclass, replace
from functools import partial
from threading import Lock
from typing import Any, TypeVar, cast

import torch
from torch import Tensor, nn
from torch.utils.weak import WeakIdKeyDictionary

from foveate.ops._triton.cache import retain_graph_tensors
from foveate.ops.backends import choose

GRAPHS, SHAPES = 8, 512
"""How many graphs a module keeps, and how many shapes it knows again: the latest of either."""


class Captured:
    """Mixed into an encoder that replays graphs."""

    @staticmethod
    def can_capture(encoder: Any) -> bool:
        """Whether a graph can hold what this encoder does."""
        return True


CAPTURED: dict[type[nn.Module], type[Captured]] = {}
"""Encoders, and the subclass of each that replays graphs; where those are defined, they say so."""

Model = TypeVar("Model", bound=nn.Module)
Encode = Callable[..., Tensor]
"""A function of tensors that waits for the device nowhere."""


def capture(model: Model) -> Model:
    """Have a model's encoder launched as one CUDA graph, where the host is what takes the time.

    In inference on a GPU, an encoder's kernels are captured when shapes come for the second time,
    and replayed from then on; elsewhere nothing changes. Outputs are the same. The length of each
    sequence without its padding and its number of global tokens count as shape. The latest eight
    graphs are kept, each with the memory that the encoder needs to run.

    Parameters may change, be replaced, moved or cast. All else that the host does between kernels
    happens once: hooks on layers are not called, adapters that are switched on or off and settings
    of torch, such as the precision of products, stay as they were when the graph was captured.
    Models in training, in parts or offloaded run as before, LED and LongT5 in float16 too, which
    look for infinities after every layer.

    Args:
        model: an accelerated Longformer, LED or LongT5, or a Fovea model, alone or in a larger
            one; changed in place. Of a model that writes, the encoder is captured.

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
    modules: list[Any] = list(model.modules())
    encoders = [x for x in modules if type(x) in CAPTURED and CAPTURED[type(x)].can_capture(x)]
    if not encoders and not any(isinstance(module, Captured) for module in modules):
        raise ValueError(
            f"there is no encoder to capture in a {type(model).__name__}: capture an accelerated "
            "Longformer, LED or LongT5 (foveate.accelerate comes first) or a Fovea model"
        )
    for encoder in encoders:
        encoder.__class__ = CAPTURED[type(encoder)]
    return model


def release(model: Model) -> Model:
    """Undo `capture`, in place, and forget the graphs; other models stay as they are."""
    before: dict[type, type[nn.Module]] = {own: encoder for encoder, own in CAPTURED.items()}
    modules: list[Any] = list(model.modules())
    for module in modules:
        if type(module) in before:
            module.__class__ = before[type(module)]
            _known.pop(module, None)
    return model


def can_replay(encoder: Any, rows: Tensor, head_dim: int) -> bool:
    """Whether an encoder of these rows may come from a graph: in inference, by our kernels."""
    trains = encoder.training or torch.is_grad_enabled()
    if trains or torch.compiler.is_compiling() or torch.jit.is_tracing():
        return False
    if not rows.is_cuda or torch.cuda.is_current_stream_capturing():
        return False
    return encoder.can_capture(encoder) and choose(None, rows[..., :head_dim]) == "triton"


def can_replay_call(
    encoder: Any,
    weight: Tensor,
    head_dim: int,
    input_ids: Tensor | None,
    inputs_embeds: Tensor | None,
    **asked: bool | None,
) -> bool:
    """Whether a call of an encoder of transformers may come from a graph: `can_replay`, and more.

    It must ask for the last hidden state alone, in a dataclass, and not be in float16, where some
    encoders look for infinities after every layer.

    Args:
        encoder: which is captured.
        weight: one of its own, in the dtype of its rows.
        head_dim: channels of a head.
        input_ids: ids, or None.
        inputs_embeds: embeddings in their place.
        asked: `output_attentions`, `output_hidden_states` and `return_dict`; None for what the
            configuration says.
    """
    asked = {name: getattr(encoder.config, name) if x is None else x for name, x in asked.items()}
    return (
        asked == {"output_attentions": False, "output_hidden_states": False, "return_dict": True}
        and (input_ids is None) != (inputs_embeds is None)
        and weight.dtype != torch.float16
        and can_replay(encoder, weight, head_dim)
    )


def replay(
    module: nn.Module, encode: Callable[[Tensor, Any], Tensor], states: Tensor, layout: Any
) -> Tensor:
    """Compute `encode(states, layout)` of a module: at first as it is, later from a graph.

    Graphs differ by the shapes, dtypes and devices of the tensors, by where the module's own are,
    by autocast, and by what of the layout is no tensor.

    Args:
        module: whose function it is.
        encode: reads no other tensors that change than those of the module.
        states: on a GPU.
        layout: of the batch: numbers, tensors on that GPU, and lists, tuples and dataclasses of
            them.

    Returns:
        The output, which the next call does not touch.
    """
    device = states.device
    own = _own_tensors(module, device)
    if own is None:
        return encode(states, layout)
    tensors = [states]
    known = _known_to_host(layout, tensors)
    key = (
        *(known, device, torch.is_autocast_enabled("cuda"), torch.get_autocast_dtype("cuda")),
        *((x.shape, x.dtype) for x in tensors),
        own,
    )
    with torch.cuda.device(device):
        with _lock:
            encode_all = partial(_encode_all, encode, layout)
            graph = _known.setdefault(module, _Known()).graph(key, encode_all, tensors)
        return encode(states, layout) if graph is None else graph(tensors)


def _known_to_host(layout: Any, tensors: list[Tensor]) -> Hashable:
    """What a layout is but for its tensors, which are appended to `tensors`."""
    if isinstance(layout, Tensor):
        tensors.append(layout)
        return Tensor
    if is_dataclass(layout):
        return tuple(_known_to_host(getattr(layout, x.name), tensors) for x in fields(layout))
    if isinstance(layout, list | tuple):
        return tuple(_known_to_host(x, tensors) for x in layout)
    known: Hashable = layout
    return known


def _with_tensors(layout: Any, tensors: Iterator[Tensor]) -> Any:
    """The same layout with other tensors."""
    if isinstance(layout, Tensor):
        return next(tensors)
    if is_dataclass(layout):
        own = {x.name: _with_tensors(getattr(layout, x.name), tensors) for x in fields(layout)}
        return replace(cast(Any, layout), **own)
    if isinstance(layout, list | tuple):
        return type(layout)(_with_tensors(x, tensors) for x in layout)
    return layout


def _encode_all(
    encode: Callable[[Tensor, Any], Tensor], layout: Any, states: Tensor, *tensors: Tensor
) -> Tensor:
    return encode(states, _with_tensors(layout, iter(tensors)))


def _own_tensors(module: nn.Module, device: torch.device) -> tuple[Hashable, ...] | None:
    """Where a module's parameters and buffers are, and of what dtypes.

    None where graphs would not do: a part is in training, or a tensor is elsewhere, or nowhere, as
    those are that hooks fetch.
    """
    found: list[Hashable] = []
    modules = [module]
    while modules:
        part = modules.pop()
        if part.training:
            return None
        for x in (*part._parameters.values(), *part._buffers.values()):
            if x is None or not x.numel():
                continue
            if x.device != device or not x.data_ptr():
                return None
            found += x.data_ptr(), x.dtype
        modules += [x for x in part._modules.values() if x is not None]
    return tuple(found)


class Graph:
    """What a function does to tensors of certain shapes, captured.

    Args:
        encode: the function.
        tensors: inputs like those to come.
    """

    def __init__(self, encode: Encode, tensors: Sequence[Tensor]) -> None:
        self._lock, self._done = Lock(), torch.cuda.Event()
        self._graph = torch.cuda.CUDAGraph()
        stream: Any = torch.cuda.Stream()  # torch declares two kinds, of which graph() takes one
        autocast = torch.autocast(
            "cuda",
            torch.get_autocast_dtype("cuda"),
            torch.is_autocast_enabled("cuda"),
            cache_enabled=False,  # what it caches is freed when the caller's autocast ends
        )
        # What is made in inference mode could not be written to outside of it.
        with (
            torch.inference_mode(False),
            torch.no_grad(),
            autocast,
            retain_graph_tensors() as self._tables,
        ):
            self._inputs = [x.clone() for x in tensors]
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):  # tables are made for a stream, when first asked for
                encode(*self._inputs)
            mode = "thread_local"  # other threads may go on
            with torch.cuda.graph(self._graph, stream=stream, capture_error_mode=mode):
                self._output = encode(*self._inputs)

    def __call__(self, tensors: Sequence[Tensor]) -> Tensor:
        """Replay the graph with other inputs, after whoever did so before on another stream."""
        with self._lock:
            torch.cuda.current_stream().wait_event(self._done)
            for place, x in zip(self._inputs, tensors, strict=True):
                place.copy_(x)
            self._graph.replay()
            output = self._output.clone()
            self._done.record()
        return output


class _Known:
    """A module's graphs, and what it was called with."""

    def __init__(self) -> None:
        self.graphs: OrderedDict[Hashable, Graph] = OrderedDict()
        self.keys: OrderedDict[Hashable, None] = OrderedDict()

    def graph(self, key: Hashable, encode: Encode, tensors: Sequence[Tensor]) -> Graph | None:
        """The graph of a key, captured when that comes for the second time; None at first."""
        if key not in self.graphs:
            if key not in self.keys:  # it may never come again
                self.keys[key] = None
                if len(self.keys) > SHAPES:
                    self.keys.popitem(last=False)
                return None
            self.graphs[key] = Graph(encode, tensors)
            if len(self.graphs) > GRAPHS:
                self.graphs.popitem(last=False)
        self.graphs.move_to_end(key)
        return self.graphs[key]


_lock = Lock()
_known = WeakIdKeyDictionary()
"""What is known of each module, beside the modules, so that these can be copied."""
