"""Window attention against its floor, SDPA, FlexAttention and FlashAttention, over sequence length.

    python -m benchmarks window_attention

One sequence, 12 heads of 64 channels, bfloat16. "LED" is a window of 512 tokens
on each side and one global token; "Longformer" half of that; "LongT5" 127 tokens on each side, T5's
bias and a summary of every 16 tokens with its own bias. "windows only" has no global token, which
is what the peers compute: FlexAttention, with its mask built beforehand, in its own kernel; torch's
FlashAttention with a window (`torch.nn.attention.varlen`); and, if the package flash-attn-4 is
there, FlexAttention in its kernel, and its own windows. Each must agree with ours within 2 %. None
of them is compared for a bias. SDPA is dense and has no bias.

The floor is the time of the products of visible pairs alone, at the measured rate of a large matrix
product: the forward pass makes 2 of them, the backward pass 5. Each time is the median of replays
of a CUDA graph with a cold L2 cache; "eager" is the same call made from Python.
"""

from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from itertools import product
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks import report
from benchmarks.registry import measurement
from benchmarks.timing import contender, each, matmul_rate, require_gpu
from foveate.ops.window_attention import GlobalKeysValues, window_attention

HEADS, HEAD_DIM = 12, 64
LENGTHS = (4096, 16_384, 65_536)
REACH = {"Longformer": 256, "LED": 512, "LongT5": 127}
DENSE_UP_TO = 16_384


def build_call(kind: str, qkv: Tensor) -> tuple[Callable[..., Tensor], list[Tensor], int]:
    """Return the function of a kind, its inputs, and the number of its global keys."""
    n, window = qkv.shape[1], (REACH[kind], REACH[kind])
    leaves = [x.detach().requires_grad_() for x in qkv[:3]]
    if kind != "LongT5":
        first = torch.zeros(1, dtype=torch.long, device=qkv.device)
        is_global = torch.arange(n, device=qkv.device) == 0

        def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            kv = GlobalKeysValues(k.index_select(0, first), v.index_select(0, first), [1])
            return window_attention(q, k, v, window, global_keys_values=kv, masked_keys=is_global)

        return attend, leaves, 1
    summaries = [x[: n // 16].detach().clone().requires_grad_() for x in qkv[1:3]]
    tables = [torch.randn(32, HEADS, device=qkv.device, requires_grad=True) for _ in range(2)]
    positions = torch.arange(n, device=qkv.device).div(16, rounding_mode="floor")

    def attend_summaries(*x: Tensor) -> Tensor:
        q, k, v, global_k, global_v, bias, global_bias = x
        kv = GlobalKeysValues(global_k, global_v, [n // 16], global_bias, positions)
        return window_attention(q, k, v, window, global_keys_values=kv, bias=bias, scale=1.0)

    return attend_summaries, [*leaves, *summaries, *tables], n // 16


def flex(n: int, reach: int, backend: str) -> Callable[..., Tensor]:
    """FlexAttention within the same windows, in Triton's kernel or in FlashAttention's."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    def near(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return (i - j).abs() <= reach

    torch.compiler.reset()
    sizes = {"BLOCK_SIZE": (128, 128)}
    mask = torch.compile(create_block_mask)(near, None, None, n, n, device="cuda", **sizes)
    compiled = torch.compile(flex_attention, dynamic=False)
    options = {"BACKEND": backend}
    return lambda q, k, v: compiled(q, k, v, block_mask=mask, kernel_options=options)


def flash_windows(
    batch: int, n: int, reach: int, device: torch.device | str, scale: float | None = None
) -> Callable[..., Tensor]:
    """FlashAttention within the same windows, on packed sequences of `n` tokens."""
    from torch.nn.attention.varlen import varlen_attn

    ends = torch.arange(batch + 1, dtype=torch.int32, device=device) * n
    window = (reach, reach)
    return lambda q, k, v: varlen_attn(q, k, v, ends, ends, n, n, scale=scale, window_size=window)


def flash_4_windows(reach: int) -> Callable[..., Tensor]:
    """The windows of the package flash-attn-4, `(1, tokens, heads, channels)`."""
    from flash_attn.cute import flash_attn_func

    return lambda q, k, v: flash_attn_func(q, k, v, window_size=(reach, reach))[0]


def measure(kind: str, n: int, rate: float) -> dict[str, Any]:
    qkv_and_grad = torch.randn(4, n, HEADS, HEAD_DIM, device="cuda").mul_(0.3).bfloat16()
    attend, leaves, num_global_keys = build_call(kind, qkv_and_grad)
    reach = REACH[kind]
    pairs = n * (2 * reach + 1 + num_global_keys) - reach * (reach + 1)
    floor = 4 * pairs * HEADS * HEAD_DIM / rate * 1e3
    result: dict[str, Any] = {"kind": kind, "tokens": n, "floor": floor, "floor_both": 3.5 * floor}
    result["foveate"] = contender(attend, leaves, qkv_and_grad[3])
    packed, grad = leaves[:3], qkv_and_grad[3]
    grad_by_head = grad.transpose(0, 1)[None].contiguous()
    by_head = [x.transpose(0, 1)[None].contiguous().requires_grad_() for x in qkv_and_grad[:3]]
    if n <= DENSE_UP_TO:
        result["SDPA"] = contender(F.scaled_dot_product_attention, by_head, grad_by_head)
    if kind == "LongT5":
        return result

    def only_windows(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return window_attention(q, k, v, (reach, reach))

    result["foveate, windows only"] = contender(only_windows, packed, grad)
    peers: dict[str, tuple[Callable[[], Callable[..., Tensor]], list[Tensor], Tensor]] = {
        "FlexAttention": (lambda: flex(n, reach, "TRITON"), by_head, grad_by_head),
        "FlashAttention": (lambda: flash_windows(1, n, reach, "cuda"), packed, grad),
    }
    if find_spec("flash_attn") is not None and find_spec("flash_attn.cute") is not None:
        one_text = [x.detach()[None].requires_grad_() for x in packed]
        peers |= {
            "FlexAttention, FLASH": (lambda: flex(n, reach, "FLASH"), by_head, grad_by_head),
            "FlashAttention 4": (lambda: flash_4_windows(reach), one_text, grad[None]),
        }
    expected = only_windows(*packed).detach()
    for name, (build, inputs, gradient) in peers.items():
        try:
            peer = build()
            check(peer(*inputs).detach(), expected)
            result[name] = contender(peer, inputs, gradient)
        except Exception as error:  # whatever a peer cannot do is a result, too
            result[name] = {"failed": f"{type(error).__name__}: {error}"[:300]}
            print(f"{name}: {result[name]['failed']}", flush=True)
    return result


def check(output: Tensor, expected: Tensor) -> None:
    """Raise ValueError unless a peer's output, by token or by head, is that of our windows."""
    is_by_token = output.shape[-2] == HEADS
    by_token = output.reshape(expected.shape) if is_by_token else output[0].transpose(0, 1)
    error = float((by_token - expected).float().norm() / expected.float().norm())
    if not error < 0.02:
        raise ValueError(f"it computes something else: the relative error is {error:.2g}")


def show(result: dict[str, Any]) -> None:
    header = ["kind", "tokens", "attention", "forward ms", "× floor", "both ms", "× floor", "GiB"]
    rows = []
    for name, r in result.items():
        if isinstance(r, dict) and "forward" in r:
            line = [result["kind"], result["tokens"], name]
            for part, floor in (("forward", "floor"), ("both", "floor_both")):
                line += [r[part], r[part] / result[floor]]
            rows.append([*line, r["both_bytes"] / 2**30 if r["both_bytes"] is not None else None])
    print(report.table(header, rows), flush=True)


@measurement("window_attention-cuda.json", "triton", "flash-attn-4")
def window(
    lengths: Sequence[int] = LENGTHS,
    kinds: Sequence[Literal["Longformer", "LED", "LongT5"]] = ("Longformer", "LED", "LongT5"),
) -> Iterator[tuple[dict[str, Any], list[str]]]:
    """Measure every kind at every length.

    Options:
        kinds: of windows
    """
    require_gpu()
    rate = matmul_rate()
    wanted = [*product(lengths, kinds)]
    for runs, missing in each(wanted, lambda one: measure(one[1], one[0], rate), show):
        yield {"matmul_rate": rate, "runs": runs}, missing
