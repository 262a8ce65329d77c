"""Times, memory and rates of what runs in this process, such as the functions of `foveate.ops`."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import Tensor


def milliseconds(run: Callable[[], Any], device: str = "cuda") -> float:
    """Median time of a call made from Python, on a GPU with a cold L2 cache."""
    if device == "cuda":
        from triton.testing import do_bench

        return do_bench(run, warmup=20, rep=100, return_mode="median")
    run()
    times = []
    for _ in range(5):
        start = time.perf_counter()
        run()
        times.append((time.perf_counter() - start) * 1e3)
    return median(times)


def graph_milliseconds(run: Callable[[], Any], device: str = "cuda") -> float:
    """Median time of the same work in a CUDA graph, without launches from Python."""
    if device != "cuda":
        return milliseconds(run, device)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(2):
            run()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):  # where autograd adds gradients to parameters, too
        run()
    return milliseconds(graph.replay, device)


def extra_bytes(run: Callable[[], Any], device: str = "cuda") -> int | None:
    """Peak memory of a call beyond what was allocated before it."""
    if device != "cuda":
        return None
    torch.cuda.synchronize()
    memory = Memory.start(device)
    run()
    return memory.peak()


@dataclass
class Memory:
    """How much memory a computation takes.

    Attributes:
        device: "cpu", the resident set of this process, or "cuda", what PyTorch allocated.
        before: Bytes at the start.
    """

    device: str
    before: int

    @classmethod
    def start(cls, device: str) -> "Memory":
        """Begin to measure."""
        if device == "cuda":
            torch.cuda.reset_peak_memory_stats()
            return cls(device, torch.cuda.memory_allocated())
        Path("/proc/self/clear_refs").write_text("5")  # Linux sets the peak to the present size
        return cls(device, resident("VmRSS"))

    def peak(self) -> int:
        """Return the peak since the start, in bytes beyond what was held then."""
        now = torch.cuda.max_memory_allocated() if self.device == "cuda" else resident("VmHWM")
        return now - self.before


def resident(name: str) -> int:
    """Read a size of this process in bytes: VmRSS is the present one, VmHWM the peak."""
    lines = Path("/proc/self/status").read_text().splitlines()
    (line,) = (line for line in lines if line.startswith(f"{name}:"))
    return int(line.split()[1]) * 1024


def contender(
    attend: Callable[..., Tensor],
    leaves: Sequence[Tensor],
    grad: Tensor,
    device: str = "cuda",
    backward: bool = True,
) -> dict[str, Any]:
    """Measure forward, and forward and backward, of one way to attend.

    Times are those of CUDA graphs; "eager" is the same call made from Python.

    Args:
        attend: Takes the leaves to an output.
        leaves: Tensors that require gradients.
        grad: The gradient of the output.
        device: "cuda" or "cpu".
        backward: Whether to measure the backward pass.
    """

    def forward() -> Tensor:
        with torch.no_grad():
            return attend(*leaves)

    def both() -> tuple[Tensor, ...]:
        return torch.autograd.grad(attend(*leaves), leaves, grad)

    result: dict[str, Any] = {}
    for part, run in (("forward", forward), ("both", both))[: 1 + backward]:
        result[part] = graph_milliseconds(run, device)
        result[f"{part}_eager"] = milliseconds(run, device)
        result[f"{part}_bytes"] = extra_bytes(run, device)
    return result


def matmul_rate(device: str = "cuda") -> float:
    """Measure the operations per second of a large matrix product, in bfloat16 on a GPU."""
    size, dtype = (8192, torch.bfloat16) if device == "cuda" else (2048, torch.float32)
    a, b = torch.randn(2, size, size, device=device).to(dtype)
    return 2 * size**3 / milliseconds(lambda: a @ b, device) * 1e3


def copy_rate() -> float:
    """Measure the bytes per second that a large copy on the GPU reads and writes."""
    source = torch.randn(1 << 28, device="cuda")
    target = torch.empty_like(source)
    return 2 * source.nbytes / milliseconds(lambda: target.copy_(source)) * 1e3
