# Triton's dialect: kernels' arguments have no types, compile-time constants are capitals.
# ruff: noqa: N803
# mypy: disable-error-code=no-untyped-def
"""The forward kernel: a program computes one head of one tile."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from foveate.ops._triton.launch import launch
from foveate.ops._triton.math import dot

from .blocks import SIZE, Blocks
from .launch import SIZES, launch_options
from .tile import (
    block,
    finished,
    key_code,
    large_tile,
    load_members,
    load_rows,
    masked_scores,
    member_mask,
    member_pointers,
    query_code,
    sees,
    span,
)


def forward(
    q: Tensor, k: Tensor, v: Tensor, blocks: Blocks, edges: tuple[bool, bool, bool], scale: float
) -> tuple[Tensor, Tensor]:
    """Outputs `(n, heads, head_dim)` and base-2 log-sum-exps `(heads, n)`, float32.

    The first pass finishes leaves, and leaves at every inner node what it sees in its children;
    the second, over the few tiles with inner nodes among their children, adds what these see
    beside and above them.
    """
    n, heads, head_dim = q.shape
    o = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    lse = torch.empty(heads, n, dtype=torch.float32, device=q.device)
    tensors = (q, k, v, o, lse, blocks.members, blocks.lists)
    strides = (*q.stride()[:2], *k.stride()[:2], *v.stride()[:2])
    numbers = (n, heads, blocks.capacity, scale)
    width, options = launch_options(head_dim, q.element_size(), 96)
    closed, large, inner, large_inner = blocks.counts
    for kernel, second_pass, tiles in (
        (_forward_large, False, large),
        (_forward_block, False, closed),
        (_forward_large, True, large_inner),
        (_forward_block, True, inner),
    ):
        if tiles:
            constants = (*edges, second_pass, head_dim, width, SIZE)
            launch(kernel, tiles * heads, tensors, strides, numbers, constants, **options)
    return o, lse


@triton.jit(do_not_specialize=SIZES)
def _forward_large(
    q,
    k,
    v,
    o,
    lse,
    members,
    lists,
    q_row,
    q_head,
    k_row,
    k_head,
    v_row,
    v_head,
    n,
    heads,
    capacity,
    scale,
    PARENT: tl.constexpr,
    SIBLINGS: tl.constexpr,
    CHILDREN: tl.constexpr,
    INNER: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    WIDTH: tl.constexpr,
    SIZE: tl.constexpr,
):
    """A tile of a large family: all of the family's in turn, rescaling as the maximum rises."""
    head = tl.program_id(0) % heads
    tile = tl.program_id(0) // heads
    tile = large_tile(lists, tile, capacity, INNER)
    row, kind = load_members(members, tile, SIZE)
    code = query_code(kind, CHILDREN)
    queries = load_rows(q, row, head, q_row, q_head, HEAD_DIM, WIDTH)
    top = tl.full([SIZE], float("-inf"), tl.float32)
    total = tl.zeros([SIZE], tl.float32)
    out = tl.zeros([SIZE, WIDTH], tl.float32)
    first, stop = span(lists, tile, capacity)
    for other in range(first, stop):
        key_row, key_kind = load_members(members, other, SIZE)
        keys = load_rows(k, key_row, head, k_row, k_head, HEAD_DIM, WIDTH)
        values = load_rows(v, key_row, head, v_row, v_head, HEAD_DIM, WIDTH)
        key = key_code(key_kind, PARENT)
        seen = sees(code[:, None], row[:, None], key[None, :], key_row[None, :], SIBLINGS)
        scores = masked_scores(queries, keys, seen, scale)
        new_top = tl.maximum(top, tl.max(scores, 1))
        weights, new_total = _softmax(scores, new_top)
        fade = tl.exp2(top - tl.where(new_top == float("-inf"), 0.0, new_top))
        total = total * fade + new_total
        out = dot(weights.to(values.dtype), values, out * fade[:, None])
        top = new_top
    keep = finished(row, kind, INNER)
    _put(o, lse, out, top, total, row, keep, head, n, heads, INNER, HEAD_DIM, WIDTH)


@triton.jit(do_not_specialize=SIZES)
def _forward_block(
    q,
    k,
    v,
    o,
    lse,
    members,
    lists,
    q_row,
    q_head,
    k_row,
    k_head,
    v_row,
    v_head,
    n,
    heads,
    capacity,
    scale,
    PARENT: tl.constexpr,
    SIBLINGS: tl.constexpr,
    CHILDREN: tl.constexpr,
    INNER: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    WIDTH: tl.constexpr,
    SIZE: tl.constexpr,
):
    """A block, which sees nothing but itself."""
    head = tl.program_id(0) % heads
    tile = tl.program_id(0) // heads
    tile = block(lists, tile, INNER)
    row, kind = load_members(members, tile, SIZE)
    queries = load_rows(q, row, head, q_row, q_head, HEAD_DIM, WIDTH)
    keys = load_rows(k, row, head, k_row, k_head, HEAD_DIM, WIDTH)
    values = load_rows(v, row, head, v_row, v_head, HEAD_DIM, WIDTH)
    query, key = query_code(kind, CHILDREN), key_code(kind, PARENT)
    seen = sees(query[:, None], row[:, None], key[None, :], row[None, :], SIBLINGS)
    scores = masked_scores(queries, keys, seen, scale)
    top = tl.max(scores, 1)
    weights, total = _softmax(scores, top)
    out = dot(weights.to(values.dtype), values)
    keep = finished(row, kind, INNER)
    _put(o, lse, out, top, total, row, keep, head, n, heads, INNER, HEAD_DIM, WIDTH)


@triton.jit
def _softmax(scores, top):
    """Weights over their total and the totals, relative to `top`; 0 for a row that sees nothing."""
    weights = tl.exp2(scores - tl.where(top == float("-inf"), 0.0, top)[:, None])
    return weights, tl.sum(weights, 1)


@triton.jit
def _put(
    o,
    lse,
    out,
    top,
    total,
    row,
    keep,
    head,
    n,
    heads,
    INNER: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    WIDTH: tl.constexpr,
):
    """Write the first pass's outputs, or merge the second's with them."""
    total = tl.where(total == 0.0, 1.0, total)
    out *= (1 / total)[:, None]
    log_total = top + tl.log2(total)
    keep_channels = member_mask(keep, HEAD_DIM, WIDTH)
    out_place = member_pointers(o, row, head, heads * HEAD_DIM, HEAD_DIM, WIDTH)
    lse_place = lse + head * n + row
    if INNER:
        below = tl.load(lse_place, mask=keep, other=0.0)
        out_below = tl.load(out_place, mask=keep_channels, other=0.0).to(tl.float32)
        share_below = 1 / (1 + tl.exp2(log_total - below))
        out += share_below[:, None] * (out_below - out)
        larger = tl.maximum(log_total, below)
        log_total = larger + tl.log2(tl.exp2(log_total - larger) + tl.exp2(below - larger))
    tl.store(out_place, out.to(o.dtype.element_ty), mask=keep_channels)
    tl.store(lse_place, log_total, mask=keep)
