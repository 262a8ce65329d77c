"""Capture of tensor functions as CUDA graphs, with or without gradients, and a cache of graphs.

A graph reads and writes memory of its own. Inference copies inputs in and the output out. Training
needs two graphs: the forward graph leaves in memory what the backward graph reads. All pairs of a
module share that memory, because only one of them is ever between its forward and backward pass,
and they write gradients to the same place, because autograd adds them up elsewhere.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import Any, Generic, TypeVar
from weakref import ReferenceType, ref

import torch
from torch import Tensor, nn

from foveate.ops._triton.cache import retain_graph_tensors, stream_id
from foveate.ops.differentiation import once_differentiable

MAX_GRAPHS, MAX_SHAPES = 8, 512
"""How many graphs a module keeps, and how many shapes it remembers: the latest of either."""

TensorFunction = Callable[..., Tensor]
"""A function of tensors that does not synchronize with the device."""

AnyGraph = TypeVar("AnyGraph")


class Graph:
    """A function of tensors of certain shapes, captured as a CUDA graph.

    Args:
        function: The function.
        tensors: Inputs with the shapes, dtypes and devices of those to come.
    """

    def __init__(self, function: TensorFunction, tensors: Sequence[Tensor]) -> None:
        self._lock, self._done = Lock(), torch.cuda.Event()
        self._graph = torch.cuda.CUDAGraph()
        stream: Any = torch.cuda.Stream()  # torch declares two kinds, of which graph() takes one
        with _capturing(gradients=False) as self._retained:
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


class TrainingGraph:
    """A function of tensors of certain shapes and its gradients, captured as two CUDA graphs.

    Args:
        function: The function, whose gradients are computed without synchronizing too.
        tensors: Inputs with the shapes, dtypes and devices of those to come.
        module: The module whose parameters the function reads.
        parameters: Those with gradients.
        gradients: Where the gradients of the parameters are written.
        pool: The memory of all such graphs of the module, see `torch.cuda.graph_pool_handle`.
    """

    def __init__(
        self,
        function: TensorFunction,
        tensors: Sequence[Tensor],
        module: nn.Module,
        parameters: Sequence[nn.Parameter],
        gradients: Sequence[Tensor],
        pool: Any,
    ) -> None:
        self._forward, self._backward = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
        stream: Any = torch.cuda.Stream()
        options = {"pool": pool, "stream": stream, "capture_error_mode": "thread_local"}
        with _capturing(gradients=True) as self._retained:
            self._inputs = [x.detach().clone() for x in tensors]
            self._inputs[0].requires_grad_(tensors[0].requires_grad)
            with _as_leaves(module, parameters) as leaves:
                sources, targets = list(leaves), list(gradients)
                if self._inputs[0].requires_grad:
                    sources.insert(0, self._inputs[0])
                    targets.insert(0, torch.empty_like(self._inputs[0]))
                stream.wait_stream(torch.cuda.current_stream())
                same_dropout = torch.random.fork_rng([torch.cuda.current_device()])
                with same_dropout, torch.cuda.stream(stream):  # tables, as for `Graph`
                    output = function(*self._inputs)
                    _gradients(output, sources, torch.ones_like(output))
                with torch.cuda.graph(self._forward, **options):
                    output = function(*self._inputs)
                self._grad_output = torch.empty_like(output)
                with torch.cuda.graph(self._backward, **options):
                    found = _gradients(output, sources, self._grad_output)
                    used = [
                        (target, one)
                        for target, one in zip(targets, found, strict=True)
                        if one is not None
                    ]
                    torch._foreach_copy_([to for to, _ in used], [one for _, one in used])
            self._gradients = [
                None if one is None else target for target, one in zip(targets, found, strict=True)
            ]
            self._output = output.detach()

    def forward(self, tensors: Sequence[Tensor]) -> Tensor:
        """Compute the output for other inputs."""
        with torch.no_grad():
            for static_input, x in zip(self._inputs, tensors, strict=True):
                static_input.copy_(x)
        self._forward.replay()
        return self._output.clone()

    def backward(self, grad_output: Tensor) -> Sequence[Tensor | None]:
        """Compute the gradients of the first input, if it has one, and of the parameters.

        They are valid until the next backward pass, so whoever keeps them copies them.
        """
        self._grad_output.copy_(grad_output)
        self._backward.replay()
        return self._gradients


@contextmanager
def _capturing(gradients: bool) -> Iterator[Any]:
    """Prepare for a capture, and collect the cached tables that it reads."""
    autocast = torch.autocast(
        "cuda",
        torch.get_autocast_dtype("cuda"),
        torch.is_autocast_enabled("cuda"),
        cache_enabled=False,  # what it caches is freed when the caller's autocast ends
    )
    # Tensors made in inference mode could not be written to outside of it.
    with (
        torch.inference_mode(False),
        torch.set_grad_enabled(gradients),
        autocast,
        retain_graph_tensors() as retained,
    ):
        yield retained


@contextmanager
def _as_leaves(module: nn.Module, parameters: Iterable[nn.Parameter]) -> Iterator[list[Tensor]]:
    """Replace parameters by tensors that share their memory, but none of their autograd state.

    Autograd adds gradients to a parameter on the stream on which the parameter was first used, as
    by a wrapper for several devices. A capture on another stream must not wait for that one.
    """
    leaves = {id(p): p.detach().requires_grad_() for p in parameters}
    replaced = [
        (part, name, parameter)
        for part in module.modules()
        for name, parameter in part._parameters.items()
        if id(parameter) in leaves
    ]
    entries: Any = [part._parameters for part, _, _ in replaced]  # declared to hold parameters
    try:
        for entry, (_, name, parameter) in zip(entries, replaced, strict=True):
            entry[name] = leaves[id(parameter)]
        yield list(leaves.values())
    finally:
        for entry, (_, name, parameter) in zip(entries, replaced, strict=True):
            entry[name] = parameter


def _gradients(
    output: Tensor, sources: Sequence[Tensor], grad_output: Tensor
) -> tuple[Tensor | None, ...]:
    return torch.autograd.grad(output, sources, grad_output, allow_unused=True)


class GraphCache(Generic[AnyGraph]):
    """The graphs of a module, and the keys it was called with.

    Attributes:
        graphs: By key, the latest last; None where memory did not suffice.
        keys: The keys seen, the latest last.
    """

    def __init__(self) -> None:
        self.graphs: OrderedDict[Hashable, AnyGraph | None] = OrderedDict()
        self.keys: OrderedDict[Hashable, None] = OrderedDict()

    def find_or_capture(self, key: Hashable, make: Callable[[], AnyGraph]) -> AnyGraph | None:
        """Return the graph of a key, captured at the second call with it; None if there is none."""
        if key not in self.graphs:
            if key not in self.keys:  # it may never come again
                self.keys[key] = None
                if len(self.keys) > MAX_SHAPES:
                    self.keys.popitem(last=False)
                return None
            if len(self.graphs) == MAX_GRAPHS:
                self.make_room()
            try:
                self.graphs[key] = make()
            except torch.OutOfMemoryError:  # what ran without graphs continues without them
                self.graphs[key] = None
        self.graphs.move_to_end(key)
        return self.graphs[key]

    def make_room(self) -> None:
        """Drop the graph that was used longest ago."""
        self.graphs.popitem(last=False)


class TrainingGraphs(GraphCache[TrainingGraph]):
    """The graphs with gradients of a module, which share memory and so are run one after another.

    Args:
        device: The device of the module.
    """

    def __init__(self, device: torch.device) -> None:
        super().__init__()
        self._device = device
        self.pool = self._new_pool()
        self._gradients: dict[int, Tensor] = {}
        self._stream = stream_id(device)
        self._latest: ReferenceType[_Pass] | None = None

    def make_room(self) -> None:
        """Drop all graphs: memory that they share is free once none of them is left."""
        self.graphs.clear()
        self.pool = self._new_pool()

    def _new_pool(self) -> Any:
        return torch.cuda.graph_pool_handle() if self._device.type == "cuda" else None

    def may_begin(self, device: torch.device) -> bool:
        """Return whether no other pass still needs the memory, on this or on another stream."""
        latest = None if self._latest is None else self._latest()
        return stream_id(device) == self._stream and (latest is None or latest.is_done)

    def gradients(self, parameters: Iterable[nn.Parameter]) -> list[Tensor]:
        """Return where all graphs write the gradients of parameters."""
        for parameter in parameters:
            known = self._gradients.get(id(parameter))
            if known is None or known.dtype != parameter.dtype or known.shape != parameter.shape:
                self._gradients[id(parameter)] = torch.empty_like(parameter, requires_grad=False)
        return [self._gradients[id(parameter)] for parameter in parameters]

    def run(
        self, graph: TrainingGraph, tensors: Sequence[Tensor], parameters: Sequence[nn.Parameter]
    ) -> Tensor:
        """Replay a graph, which `may_begin`, with other inputs; autograd replays the second."""
        sources = [x for x in (tensors[0], *parameters) if x.requires_grad]
        this_pass = _Pass(self, graph)
        self._latest = ref(this_pass)
        output: Tensor = _Replay.apply(this_pass, tensors, *sources)
        return output

    def is_latest(self, some_pass: "_Pass") -> bool:
        """Return whether no other pass has begun since this one."""
        return self._latest is not None and self._latest() is some_pass


class _Pass:
    """A forward pass through a graph, and the backward pass that follows; autograd keeps it.

    Args:
        graphs: The graphs of the module.
        graph: The one of this pass.
    """

    def __init__(self, graphs: TrainingGraphs, graph: TrainingGraph) -> None:
        self.graphs, self.graph = graphs, graph
        self.is_done = False

    def backward(self, grad_output: Tensor) -> Sequence[Tensor | None]:
        """Compute the gradients.

        Raises:
            RuntimeError: Another pass has begun, after a first backward pass of this one.
        """
        if not self.graphs.is_latest(self):
            raise RuntimeError(
                "this is the second backward pass through an encoder that has encoded another "
                "batch since: what it needs is overwritten. Go back before the next batch, or "
                "release(model) from its CUDA graphs"
            )
        gradients = self.graph.backward(grad_output)
        self.is_done = True
        return gradients


class _Replay(torch.autograd.Function):
    """Replays two graphs: one forward, one backward."""

    @staticmethod
    def forward(ctx: Any, this_pass: _Pass, tensors: Sequence[Tensor], *sources: Tensor) -> Tensor:
        ctx.this_pass = this_pass
        return this_pass.graph.forward(tensors)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Any, ...]:
        first, *others = ctx.this_pass.backward(grad_output)
        # Autograd copies what it adds to parameters, but hands on the gradient of an input.
        return None, None, first if first is None else first.clone(), *others
