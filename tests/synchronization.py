"""Fail where a function would wait for a GPU, and what stands in for CUDA graphs without one."""

from contextlib import contextmanager, nullcontext

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from foveate.models.accelerate import cuda_graphs

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
    monkeypatch.setattr(cuda_graphs, "can_replay", lambda *arguments: True)
    if not torch.cuda.is_available():
        monkeypatch.setattr(torch.cuda, "device", lambda device: nullcontext())
    return graphs
