"""Times, memory and rates of what runs in this process, such as the functions of `foveate.ops`."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, TypeVar

import torch
from torch import Tensor

T = TypeVar("T")


def timed(run: Callable[[], T]) -> tuple[float, T]:
    """Call a function once, and return the seconds and what it returns."""
    begun = time.perf_counter()
    result = run()
    return time.perf_counter() - begun, result


def spread(seconds: Sequence[float]) -> float | None:
    """Return the largest time less the smallest, in percent of the median; None of a single one."""
    if len(seconds) == 1:
        return None
    return 100 * (max(seconds) - min(seconds)) / median(seconds)


def milliseconds(run: Callable[[], Any], device: str = "cuda") -> float:
    """Median time of a call made from Python, on a GPU with a cold L2 cache."""
    if device == "cuda":
        from triton.testing import do_bench

        return do_bench(run, warmup=20, rep=100, return_mode="median")
    run()
    return 1e3 * median(timed(run)[0] for _ in range(5))


def graph_milliseconds(run: Callable[[], Any]) -> float:
    """Median time of the same work in a CUDA graph, without launches from Python."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(2):
            run()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):  # where autograd adds gradients to parameters, too
        run()
    return milliseconds(graph.replay)


def extra_bytes(run: Callable[[], Any]) -> int:
    """Peak memory of a call on the GPU beyond what was allocated before it."""
    torch.cuda.synchronize()
    memory = Memory.start("cuda")
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
    backward: bool = True,
) -> dict[str, Any]:
    """Measure forward, and forward and backward, of one way to attend on a GPU.

    Times are those of CUDA graphs; "eager" is the same call made from Python.

    Args:
        attend: Takes the leaves to an output.
        leaves: Tensors that require gradients.
        grad: The gradient of the output.
        backward: Whether to measure the backward pass.
    """

    def forward() -> Tensor:
        with torch.no_grad():
            return attend(*leaves)

    def both() -> tuple[Tensor, ...]:
        return torch.autograd.grad(attend(*leaves), leaves, grad)

    result: dict[str, Any] = {}
    for part, run in (("forward", forward), ("both", both))[: 1 + backward]:
        result[part] = graph_milliseconds(run)
        result[f"{part}_eager"] = milliseconds(run)
        result[f"{part}_bytes"] = extra_bytes(run)
    return result


def each(
    wanted: Sequence[Any], measure: Callable[[Any], T], show: Callable[[T], None]
) -> Iterator[tuple[list[T], list[str]]]:
    """Measure and show one after the other; yield all so far and what is missing."""
    found: list[T] = []
    for number, one in enumerate(wanted, 1):
        found.append(measure(one))
        show(found[-1])
        yield found, [str(other) for other in wanted[number:]]


def require_gpu() -> None:
    """End a measurement whose floors are a GPU's rates, if there is none."""
    if not torch.cuda.is_available():
        raise SystemExit("this benchmark needs a GPU: its floors are the GPU's rates")


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
