"""Window attention on the GPU: tiles of queries and keys, forward and backward, as torch ops.

Side rows are seen by all queries of their sequence: they are the first tiles that a program meets.
Where there are biases, the kernels of relative attention attend the side rows, and those of windows
go on from there.

`foveate::window_attention` and `foveate::window_attention_backward` are opaque to the compiler and
know their output's shapes without running, so that torch.compile, graph capture, checkpointing and
distributed wrappers take them like any op of torch's own.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

import foveate.ops.relative_attention.triton  # noqa: F401, for its ops
from foveate.ops._triton.math import adjacent

from ..side import Side
from .backward import backward
from .forward import forward
from .launch import SideRows, Windows

__all__ = ["window_attention"]


def window_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    side: Side,
    bias: Tensor | None,
    hidden: Tensor | None,
    window: tuple[int, int],
    lengths: Sequence[int],
    max_distance: int,
    scale: float,
) -> Tensor:
    """Attention of packed rows, as `foveate.ops.window_attention` defines it, without dilation.

    Args:
        q: queries `(n, heads, head_dim)`, float16, bfloat16 or float32, any strides.
        k: keys, like q.
        v: values, like q.
        side: side rows.
        bias: table `(num_buckets, heads)`.
        hidden: `(n,)` bool, rows that no window shows.
        window: rows to the left and to the right.
        lengths: rows of each sequence.
        max_distance: distance near which the last bucket begins.
        scale: factor on the products.
    """
    if scale < 0:  # the highest product shall have the highest score
        q, scale = -q, -scale
    tensors = q, k, v, side.k, side.v, bias, side.bias, side.positions, hidden
    options = list(lengths), list(side.lengths), *window, max_distance, scale
    if torch.is_grad_enabled():
        out: Tensor = _Attention.apply(*tensors, *options)
        return out
    return torch.ops.foveate.window_attention.default(*tensors, *options)[0]


_ARGUMENTS = (
    "Tensor q, Tensor k, Tensor v, Tensor side_k, Tensor side_v, Tensor? bias, Tensor? side_bias, "
    "Tensor? positions, Tensor? hidden, SymInt[] lengths, SymInt[] side_lengths, "
    "int left, int right, int max_distance, float scale"
)
torch.library.define("foveate::window_attention", f"({_ARGUMENTS}) -> (Tensor, Tensor)")
torch.library.define(
    "foveate::window_attention_backward",
    f"(Tensor grad, Tensor o, Tensor lse, {_ARGUMENTS})"
    " -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
)


@torch.library.impl("foveate::window_attention", ("cpu", "cuda"))
def _(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    side_k: Tensor,
    side_v: Tensor,
    bias: Tensor | None,
    side_bias: Tensor | None,
    positions: Tensor | None,
    hidden: Tensor | None,
    lengths: list[int],
    side_lengths: list[int],
    left: int,
    right: int,
    max_distance: int,
    scale: float,
) -> tuple[Tensor, Tensor]:
    side, begun = None, None
    if bias is None and side_bias is None:
        side = _side_rows(side_k, side_v, side_lengths)
    elif side_k.shape[0]:
        begun = torch.ops.foveate.relative_attention.default(
            *(q, side_k, side_v, side_bias, None, positions, None),
            *(lengths, side_lengths, False, max_distance, scale),
        )
    windows = Windows.by_table(bias, hidden, left, right, max_distance, scale)
    return forward(adjacent(q), adjacent(k), adjacent(v), windows, lengths, side, begun)


@torch.library.register_fake("foveate::window_attention")
def _(q: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
    n, heads, _ = q.shape
    return q.new_empty(q.shape), q.new_empty((heads, n), dtype=torch.float32)


@torch.library.impl("foveate::window_attention_backward", ("cpu", "cuda"))
def _(
    grad: Tensor,
    o: Tensor,
    lse: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    side_k: Tensor,
    side_v: Tensor,
    bias: Tensor | None,
    side_bias: Tensor | None,
    positions: Tensor | None,
    hidden: Tensor | None,
    lengths: list[int],
    side_lengths: list[int],
    left: int,
    right: int,
    max_distance: int,
    scale: float,
) -> tuple[Tensor, ...]:
    side, begun, of_side = None, None, [torch.empty_like(side_k), torch.empty_like(side_v)]
    d_side_bias = q.new_empty(0) if side_bias is None else torch.zeros_like(side_bias)
    if bias is None and side_bias is None:
        side = _side_rows(side_k, side_v, side_lengths)
    elif side_k.shape[0]:
        begun, *of_side, d_side_bias, _ = torch.ops.foveate.relative_attention_backward.default(
            *(grad, o, lse, q, side_k, side_v, side_bias, None, positions, None),
            *(lengths, side_lengths, False, max_distance, scale),
        )
    windows = Windows.by_table(bias, hidden, left, right, max_distance, scale)
    grad, q, k, v = adjacent(grad), adjacent(q), adjacent(k), adjacent(v)
    dq, dk, dv, d_side, d_bias = backward(grad, q, k, v, o, lse, windows, lengths, side, begun)
    if d_side is not None:
        for gradient, total in zip(of_side, d_side, strict=True):
            gradient.copy_(total)
    d_bias = q.new_empty(0) if bias is None or d_bias is None else d_bias.to(bias.dtype)
    return dq, dk, dv, *of_side, d_bias, d_side_bias


@torch.library.register_fake("foveate::window_attention_backward")
def _(
    grad: Tensor,
    o: Tensor,
    lse: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    side_k: Tensor,
    side_v: Tensor,
    bias: Tensor | None,
    side_bias: Tensor | None,
    *rest: Any,
) -> tuple[Tensor, ...]:
    rows = (x.new_empty(x.shape) for x in (q, k, v, side_k, side_v))
    biases = (q.new_empty(0) if x is None else x.new_empty(x.shape) for x in (bias, side_bias))
    return *rows, *biases


class _Attention(torch.autograd.Function):
    """Keeps the inputs, the output and one float32 per row and head."""

    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> Tensor:
        out, lse = torch.ops.foveate.window_attention.default(*arguments)
        ctx.save_for_backward(out, lse, *arguments[:9])
        ctx.options = arguments[9:]
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        saved = ctx.saved_tensors
        dq, dk, dv, d_side_k, d_side_v, d_bias, d_side_bias = (
            torch.ops.foveate.window_attention_backward.default(grad, *saved, *ctx.options)
        )
        bias, side_bias = saved[7:9]
        of_bias = None if bias is None else d_bias
        of_side_bias = None if side_bias is None else d_side_bias
        return dq, dk, dv, d_side_k, d_side_v, of_bias, of_side_bias, *[None] * 8


def _side_rows(k: Tensor, v: Tensor, lengths: list[int]) -> SideRows | None:
    return SideRows(adjacent(k), adjacent(v), lengths) if k.shape[0] else None
