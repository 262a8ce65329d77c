"""Fail where a function would wait for a GPU, and what stands in for CUDA graphs without one."""

from contextlib import contextmanager, nullcontext

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from foveate.models.speed_ups import cuda_graphs

_WAITING = {
    torch.ops.aten._local_scalar_dense.default,
    torch.ops.aten.equal.default,
    torch.ops.aten.is_nonzero.default,
    torch.ops.aten.masked_select.default,
    torch.ops.aten.nonzero.default,
    torch.ops.aten.bincount.default,
    torch.ops.aten._unique2.default,
    torch.ops.aten.unique_dim.default,
    torch.ops.aten.unique_consecutive.default,
}


class _WaitingError(AssertionError):
    """An op would wait."""


class _Forbid(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        masks = ()
        if func in (torch.ops.aten.index.Tensor, torch.ops.aten.index_put.default):
            masks = args[1]
        waits = func in _WAITING
        waits |= any(x is not None and x.dtype in (torch.bool, torch.uint8) for x in masks)
        if func is torch.ops.aten.repeat_interleave.Tensor:
            waits |= kwargs.get("output_size") is None
        if waits:
            raise _WaitingError(f"{func} waits for the device")
        return func(*args, **kwargs)


@contextmanager
def no_waiting(except_for=0):
    """Raise an AssertionError at ops that would wait for the values of a tensor on a GPU.

    What copies a tensor between the host and the device is not noticed, as on a CPU nothing does.
    So many calls of `tolist` are allowed, which is how the host asks for several numbers at once.
    """
    original, remaining = torch.Tensor.tolist, [None] * except_for

    def tolist(self):
        if not remaining:
            raise _WaitingError("tolist waits for the device")
        remaining.pop()
        return original(self)

    torch.Tensor.tolist = tolist
    try:
        with _Forbid():
            yield
    finally:
        torch.Tensor.tolist = original


def replace_graphs(monkeypatch):
    """Let `capture` work without a GPU: what it captures runs again, on other tensors.

    As in a graph, everything but the values of the tensors is what it was at the capture, and
    nothing may wait for them.

    Returns:
        A list that each captured graph is appended to.
    """
    graphs = []

    def graph(function, tensors):
        inputs = [x.clone() for x in tensors]

        def replay(values):
            for x, value in zip(inputs, values, strict=True):
                x.copy_(value)
            with no_waiting():
                return function(*inputs)

        graphs.append(replay)
        return replay

    monkeypatch.setattr(cuda_graphs, "Graph", graph)
    _capture_without_a_gpu(monkeypatch)
    return graphs


def replace_training_graphs(monkeypatch, may_wait=False):
    """Like `replace_graphs` for training: gradients are written to memory that graphs share.

    Args:
        monkeypatch: The fixture.
        may_wait: Whether functions may wait for values of tensors, as they do on a CPU.
    """
    graphs = []

    class TrainingGraph:
        def __init__(self, function, tensors, module, parameters, gradients, pool):
            graphs.append(self)
            self.function = function
            self.inputs = [x.detach().clone() for x in tensors]
            self.inputs[0].requires_grad_(tensors[0].requires_grad)
            self.sources, self.gradients = [*parameters], [*gradients]
            if tensors[0].requires_grad:
                self.sources.insert(0, self.inputs[0])
                self.gradients.insert(0, torch.empty_like(self.inputs[0]))

        def forward(self, tensors):
            with torch.no_grad():
                for static_input, x in zip(self.inputs, tensors, strict=True):
                    static_input.copy_(x)
            with torch.enable_grad(), nullcontext() if may_wait else no_waiting():
                self.output = self.function(*self.inputs)
            return self.output.detach().clone()

        def backward(self, grad_output):
            with nullcontext() if may_wait else no_waiting():
                found = torch.autograd.grad(
                    self.output, self.sources, grad_output, retain_graph=True, allow_unused=True
                )
            for gradient, new in zip(self.gradients, found, strict=True):
                if new is not None:
                    gradient.copy_(new)
            pairs = zip(self.gradients, found, strict=True)
            return [None if new is None else gradient for gradient, new in pairs]

    monkeypatch.setattr(cuda_graphs, "TrainingGraph", TrainingGraph)
    _capture_without_a_gpu(monkeypatch)
    return graphs


def _capture_without_a_gpu(monkeypatch):
    monkeypatch.setattr(cuda_graphs, "can_replay", lambda *arguments: True)
    cuda_device = torch.cuda.device

    class AnyDevice(cuda_device):
        def __new__(cls, device):
            return nullcontext() if str(device) == "cpu" else cuda_device(device)

    monkeypatch.setattr(torch.cuda, "device", AnyDevice)
