"""Relative attention against its floor, SDPA and FlexAttention, over sequence length.

    python -m benchmarks relative_attention

One sequence, 12 heads of 64 channels, bfloat16, T5's bias of 32 buckets. The floor is the products
alone at the rate of a large matrix product, measured in the same run: forward makes 2 of them,
backward 5, each of 2 · n² · 64 operations per head. "SDPA" has no bias, which is what dense
attention costs without one; "SDPA, bias as mask" reads the bias from a tensor (heads, n, n), made
beforehand; "FlexAttention" looks it up by distance; its gradient includes the bias's up to 4,096
tokens, which it adds up one pair at a time. Each time is the median of replays of a CUDA graph with
a cold L2 cache; "eager" is the same call made from Python.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks import report
from benchmarks.registry import measurement
from benchmarks.timing import contender, each, matmul_rate, require_gpu
from foveate.ops.relative_attention import bias_by_distance, relative_attention

HEADS, HEAD_DIM, BUCKETS, MAX_DISTANCE = 12, 64, 32, 128
LENGTHS = [1024, 4096, 16_384, 65_536]
MASK_UP_TO, FLEX_BIAS_GRADIENT_UP_TO = 16_384, 4096


def flex(by_distance: Tensor) -> Callable[..., Tensor]:
    """FlexAttention with the bias by distance as its score_mod."""
    from torch.nn.attention.flex_attention import flex_attention

    torch.compiler.reset()
    compiled = torch.compile(flex_attention, dynamic=False)
    reach = by_distance.shape[1] // 2

    def bias(score: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return score + by_distance[h, (j - i).clamp(-reach, reach) + reach]

    def attend(q: Tensor, k: Tensor, v: Tensor, *_: Tensor) -> Tensor:
        return compiled(q, k, v, score_mod=bias, scale=1.0)

    return attend


def measure(n: int, rate: float) -> dict[str, Any]:
    qkv_and_grad = torch.randn(4, n, HEADS, HEAD_DIM, device="cuda").mul(HEAD_DIM**-0.25)
    q, k, v, grad = qkv_and_grad.to(torch.bfloat16)
    leaves = [x.requires_grad_() for x in (q, k, v)]
    table = torch.randn(BUCKETS, HEADS, device="cuda", requires_grad=True)
    products = 2 * n * n * HEADS * HEAD_DIM
    result: dict[str, Any] = {
        "tokens": n,
        "flop": 2 * products,
        "floor": 2 * products / rate * 1e3,
        "floor_both": 7 * products / rate * 1e3,
    }

    def with_bias(q: Tensor, k: Tensor, v: Tensor, table: Tensor) -> Tensor:
        return relative_attention(q, k, v, bias=table, max_distance=MAX_DISTANCE)

    result["foveate"] = contender(with_bias, [*leaves, table], grad)
    result["foveate, no bias"] = contender(relative_attention, leaves, grad)

    grad = grad.transpose(0, 1)[None].contiguous()
    leaves = [x.detach().transpose(0, 1)[None].contiguous().requires_grad_() for x in leaves]

    def dense(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=1.0)

    result["SDPA"] = contender(dense, leaves, grad)
    by_distance = bias_by_distance(table, MAX_DISTANCE, bidirectional=True).detach().contiguous()
    if n <= MASK_UP_TO:
        reach, place = by_distance.shape[1] // 2, torch.arange(n, device="cuda")
        distance = (place[None] - place[:, None]).clamp_(-reach, reach).add_(reach)
        mask = by_distance.bfloat16()[:, distance][None].requires_grad_()
        del distance
        result["SDPA, bias as mask"] = contender(dense, [*leaves, mask], grad)
        del mask
    if n <= FLEX_BIAS_GRADIENT_UP_TO:
        leaves.append(by_distance.requires_grad_())
    result["FlexAttention"] = contender(flex(by_distance), leaves, grad)
    return result


CONTENDERS = ["foveate", "foveate, no bias", "SDPA", "SDPA, bias as mask", "FlexAttention"]


def show(run: dict[str, Any]) -> None:
    header = ["tokens", "attention", "forward ms", "× floor", "TFLOP/s", "GiB"]
    header += ["both ms", "× floor", "TFLOP/s", "GiB"]
    rows = []
    for name in CONTENDERS:
        if r := run.get(name):
            line = [run["tokens"], name]
            for part, floor, times in (("forward", "floor", 1), ("both", "floor_both", 3.5)):
                rate = times * run["flop"] / r[part] / 1e9
                line += [r[part], r[part] / run[floor], rate, r[f"{part}_bytes"] / 2**30]
            rows.append(line)
    print(report.table(header, rows), flush=True)


@measurement("relative_attention.json", "triton")
def relative(
    lengths: Sequence[int] = LENGTHS,
) -> Iterator[tuple[dict[str, Any], list[str]]]:
    """Measure every length."""
    require_gpu()
    rate = matmul_rate()
    for runs, missing in each(lengths, partial(measure, rate=rate), show):
        yield {"matmul_rate": rate, "lengths": runs}, missing
