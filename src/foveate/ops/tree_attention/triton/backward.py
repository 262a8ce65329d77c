# Triton's dialect: kernels' arguments have no types, compile-time constants are capitals.
# ruff: noqa: N803
# mypy: disable-error-code=no-untyped-def
"""The backward kernel: a program finishes dQ, dK and dV of one head of one tile.

With P = exp(scores - lse), D = rowsum(dO ∘ O) and dS = P ∘ (dO Vᵀ - D) · scale:
dV = Pᵀ dO, dK = dSᵀ Q, dQ = dS K. Every edge has both ends in one tile, or in two of a large
family, so one program owns each row's sums and adds them in a fixed order: gradients are equal
bit for bit from run to run.
"""

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


def backward(
    grad: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    o: Tensor,
    lse: Tensor,
    blocks: Blocks,
    edges: tuple[bool, bool, bool],
    scale: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of q, k and v, each `(n, heads, head_dim)`, from that of the output.

    Two passes as in `forward`: the first leaves at every inner node its share as a parent, the
    second adds its share as a child.
    """
    n, heads, head_dim = q.shape
    dq, dk, dv = (torch.empty(q.shape, dtype=q.dtype, device=q.device) for _ in range(3))
    tensors = (q, k, v, o, grad, lse, dq, dk, dv, blocks.members, blocks.lists)
    strides = (*q.stride()[:2], *k.stride()[:2], *v.stride()[:2], *grad.stride()[:2])
    numbers = (n, heads, blocks.capacity, scale)
    closed, large, inner, large_inner = blocks.counts
    for kernel, second_pass, jobs, registers in (
        (_backward_large, False, 2 * large, 168),
        (_backward_block, False, closed, 128),
        (_backward_large, True, 2 * large_inner, 168),
        (_backward_block, True, inner, 128),
    ):
        if jobs:
            width, options = launch_options(head_dim, q.element_size(), registers)
            constants = (*edges, second_pass, head_dim, width, SIZE)
            launch(kernel, jobs * heads, tensors, strides, numbers, constants, **options)
    return dq, dk, dv


@triton.jit(do_not_specialize=SIZES)
def _backward_block(
    q,
    k,
    v,
    o,
    grad,
    lse,
    dq,
    dk,
    dv,
    members,
    lists,
    q_row,
    q_head,
    k_row,
    k_head,
    v_row,
    v_head,
    grad_row,
    grad_head,
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
    """A block: one tile of scores holds all its edges."""
    head = tl.program_id(0) % heads
    tile = tl.program_id(0) // heads
    tile = block(lists, tile, INNER)
    row, kind = load_members(members, tile, SIZE)
    queries = load_rows(q, row, head, q_row, q_head, HEAD_DIM, WIDTH)
    keys = load_rows(k, row, head, k_row, k_head, HEAD_DIM, WIDTH)
    values = load_rows(v, row, head, v_row, v_head, HEAD_DIM, WIDTH)
    grads = load_rows(grad, row, head, grad_row, grad_head, HEAD_DIM, WIDTH)
    outs = load_rows(o, row, head, heads * HEAD_DIM, HEAD_DIM, HEAD_DIM, WIDTH)
    log_total = tl.load(lse + head * n + row, mask=row >= 0, other=0.0)
    seen = _seen(row, kind, row, kind, PARENT, SIBLINGS, CHILDREN)
    weights, slopes = _slopes(keys, values, queries, grads, outs, log_total, seen, scale)
    keep = finished(row, kind, INNER)
    _put(dv, dot(weights, grads), row, keep, head, heads, INNER, HEAD_DIM, WIDTH)
    _put(dk, dot(slopes, queries), row, keep, head, heads, INNER, HEAD_DIM, WIDTH)
    _put(dq, dot(slopes.T, keys), row, keep, head, heads, INNER, HEAD_DIM, WIDTH)


@triton.jit(do_not_specialize=SIZES)
def _backward_large(
    q,
    k,
    v,
    o,
    grad,
    lse,
    dq,
    dk,
    dv,
    members,
    lists,
    q_row,
    q_head,
    k_row,
    k_head,
    v_row,
    v_head,
    grad_row,
    grad_head,
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
    """A tile of a large family: as keys of each of the family's tiles, or as queries to each."""
    head = tl.program_id(0) % heads
    tile = tl.program_id(0) // heads // 2
    tile = large_tile(lists, tile, capacity, INNER)
    row, kind = load_members(members, tile, SIZE)
    keep = finished(row, kind, INNER)
    first, stop = span(lists, tile, capacity)
    if tl.program_id(0) // heads % 2 == 0:
        keys = load_rows(k, row, head, k_row, k_head, HEAD_DIM, WIDTH)
        values = load_rows(v, row, head, v_row, v_head, HEAD_DIM, WIDTH)
        dk_rows = tl.zeros([SIZE, WIDTH], tl.float32)
        dv_rows = tl.zeros([SIZE, WIDTH], tl.float32)
        for other in range(first, stop):
            from_row, from_kind = load_members(members, other, SIZE)
            queries = load_rows(q, from_row, head, q_row, q_head, HEAD_DIM, WIDTH)
            grads = load_rows(grad, from_row, head, grad_row, grad_head, HEAD_DIM, WIDTH)
            outs = load_rows(o, from_row, head, heads * HEAD_DIM, HEAD_DIM, HEAD_DIM, WIDTH)
            log_total = tl.load(lse + head * n + from_row, mask=from_row >= 0, other=0.0)
            seen = _seen(row, kind, from_row, from_kind, PARENT, SIBLINGS, CHILDREN)
            weights, slopes = _slopes(keys, values, queries, grads, outs, log_total, seen, scale)
            dv_rows = dot(weights, grads, dv_rows)
            dk_rows = dot(slopes, queries, dk_rows)
        _put(dv, dv_rows, row, keep, head, heads, INNER, HEAD_DIM, WIDTH)
        _put(dk, dk_rows, row, keep, head, heads, INNER, HEAD_DIM, WIDTH)
    else:
        queries = load_rows(q, row, head, q_row, q_head, HEAD_DIM, WIDTH)
        grads = load_rows(grad, row, head, grad_row, grad_head, HEAD_DIM, WIDTH)
        outs = load_rows(o, row, head, heads * HEAD_DIM, HEAD_DIM, HEAD_DIM, WIDTH)
        log_total = tl.load(lse + head * n + row, mask=row >= 0, other=0.0)
        dq_rows = tl.zeros([SIZE, WIDTH], tl.float32)
        for other in range(first, stop):
            to_row, to_kind = load_members(members, other, SIZE)
            keys = load_rows(k, to_row, head, k_row, k_head, HEAD_DIM, WIDTH)
            values = load_rows(v, to_row, head, v_row, v_head, HEAD_DIM, WIDTH)
            seen = _seen(to_row, to_kind, row, kind, PARENT, SIBLINGS, CHILDREN)
            _, slopes = _slopes(keys, values, queries, grads, outs, log_total, seen, scale)
            dq_rows = dot(slopes.T, keys, dq_rows)
        _put(dq, dq_rows, row, keep, head, heads, INNER, HEAD_DIM, WIDTH)


@triton.jit
def _seen(
    key_row,
    key_kind,
    row,
    kind,
    PARENT: tl.constexpr,
    SIBLINGS: tl.constexpr,
    CHILDREN: tl.constexpr,
):
    """Whether queries see keys, keys down and queries across: `(SIZE, SIZE)`."""
    query, key = query_code(kind, CHILDREN), key_code(key_kind, PARENT)
    return sees(query[None, :], row[None, :], key[:, None], key_row[:, None], SIBLINGS)


@triton.jit
def _slopes(keys, values, queries, grads, outs, log_total, seen, scale):
    """Pᵀ and dSᵀ, keys down and queries across: `(SIZE, SIZE)` in the inputs' dtype."""
    weights = tl.exp2(masked_scores(keys, queries, seen, scale) - log_total[None, :])
    delta = tl.sum(grads.to(tl.float32) * outs.to(tl.float32), 1)
    slopes = weights * (dot(values, grads.T) - delta[None, :]) * scale
    return weights.to(queries.dtype), slopes.to(queries.dtype)


@triton.jit
def _put(
    x,
    value,
    row,
    keep,
    head,
    heads,
    INNER: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    WIDTH: tl.constexpr,
):
    """Write the first pass's share of a gradient, or add the second's to it."""
    place = member_pointers(x, row, head, heads * HEAD_DIM, HEAD_DIM, WIDTH)
    mask = member_mask(keep, HEAD_DIM, WIDTH)
    if INNER:
        value += tl.load(place, mask=mask, other=0.0).to(tl.float32)
    tl.store(place, value.to(x.dtype.element_ty), mask=mask)
