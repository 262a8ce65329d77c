"""Fovea attention against its floors and dense attention, over sequence length.

    python -m benchmarks fovea_attention

One sequence, 12 heads of 64 channels, bfloat16, T5's bias, blocks of 128, one neighbour per level.
The floor is the larger of two times: that of the products of queries with the keys they see, 2
forward and 5 backward, at the rate of a large matrix product; and that of the bytes that must move,
at the rate of a large copy: forward reads Q, K, V and writes O, backward reads these and dO and
writes dQ, dK, dV. An average counts as one key. "dense" is `relative_attention`
with the same bias, "SDPA" torch's without any. Each time is the median of replays of a CUDA
graph with a cold L2 cache; "eager" is the same call made from Python.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks import report
from benchmarks.registry import measurement
from benchmarks.relative_attention import BUCKETS, HEAD_DIM, HEADS
from benchmarks.timing import contender, copy_rate, each, matmul_rate, require_gpu
from foveate.ops.fovea_attention import COVERAGES, fovea_attention, select_nodes
from foveate.ops.relative_attention import relative_attention

BLOCK, NEIGHBOURS = 128, 1
LENGTHS = [4096, 16_384, 65_536, 262_144]
DENSE_UP_TO = 65_536


def measure(n: int, rate: float, bandwidth: float) -> dict[str, Any]:
    qkv_and_grad = torch.randn(4, n, HEADS, HEAD_DIM, device="cuda").mul(HEAD_DIM**-0.25)
    q, k, v, grad = qkv_and_grad.to(torch.bfloat16)
    leaves = [x.requires_grad_() for x in (q, k, v)]
    table = torch.randn(BUCKETS, HEADS, device="cuda", requires_grad=True)
    moved = 4 * q.nbytes / bandwidth * 1e3
    result: dict[str, Any] = {"tokens": n, "ways": {}}

    for coverage in COVERAGES:

        def fovea(
            q: Tensor, k: Tensor, v: Tensor, table: Tensor, coverage: str = coverage
        ) -> Tensor:
            sizes = {"block_size": BLOCK, "k_neighbours": NEIGHBOURS, "coverage": coverage}
            return fovea_attention(q, k, v, bias=table, **sizes)

        seen = (
            sum(len(nodes) for nodes in select_nodes(n // BLOCK, NEIGHBOURS, coverage)) * BLOCK**2
        )
        products = 2 * seen * HEADS * HEAD_DIM / rate * 1e3
        result["ways"][f"fovea, {coverage}"] = contender(fovea, [*leaves, table], grad) | {
            "keys seen": seen / n,
            "floor": max(2 * products, moved),
            "floor_both": max(7 * products, 3 * moved),
        }
    if n <= DENSE_UP_TO:

        def dense(q: Tensor, k: Tensor, v: Tensor, table: Tensor) -> Tensor:
            return relative_attention(q, k, v, bias=table)

        result["ways"]["dense"] = contender(dense, [*leaves, table], grad)
        leaves = [x.detach().transpose(0, 1)[None].contiguous().requires_grad_() for x in leaves]
        grad = grad.transpose(0, 1)[None].contiguous()
        result["ways"]["SDPA"] = contender(F.scaled_dot_product_attention, leaves, grad)
    return result


def show(run: dict[str, Any]) -> None:
    header = ["tokens", "attention", "keys seen", "forward ms", "× floor", "GiB"]
    header += ["both ms", "× floor", "GiB"]
    rows = []
    for name, way in run["ways"].items():
        line = [run["tokens"], name, way.get("keys seen")]
        for part, floor in (("forward", "floor"), ("both", "floor_both")):
            times = way[part] / way[floor] if floor in way else None
            line += [way[part], times, way[f"{part}_bytes"] / 2**30]
        rows.append(line)
    print(report.table(header, rows), flush=True)


@measurement("fovea_attention.json", "triton")
def fovea(lengths: Sequence[int] = LENGTHS) -> Iterator[tuple[dict[str, Any], list[str]]]:
    """Measure every length."""
    require_gpu()
    rate, bandwidth = matmul_rate(), copy_rate()
    for runs, missing in each(lengths, partial(measure, rate=rate, bandwidth=bandwidth), show):
        yield {"matmul_rate": rate, "copy_rate": bandwidth, "lengths": runs}, missing
