# Triton's dialect: kernels' arguments have no types, compile-time constants are capitals.
# ruff: noqa: N803
# mypy: disable-error-code=no-untyped-def
"""The forward kernel: a program computes one head of one tile."""

import triton
import triton.language as tl
from torch import Tensor

from foveate.ops._triton.math import dot
from foveate.ops._triton.softmax import begin_softmax, empty_outputs, finite_top

from .partition import ForestTiles
from .tile import (
    NOT_SPECIALIZED,
    edge_mask,
    family_tiles,
    is_finished,
    key_code,
    launch_passes,
    load_members,
    load_nodes,
    masked_scores,
    node_mask,
    node_pointers,
    nth_tile,
    query_code,
)


def forward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    tiles: ForestTiles,
    edges: tuple[bool, bool, bool],
    scale: float,
) -> tuple[Tensor, Tensor]:
    """Compute outputs `(n, heads, head_dim)` and base-2 log-sum-exps `(heads, n)` in float32."""
    o, lse = empty_outputs(q)
    strides = (*q.stride()[:2], *k.stride()[:2], *v.stride()[:2])
    launch_passes(_forward, (q, k, v, o, lse), strides, tiles, edges, scale, registers=(96, 96))
    return o, lse


@triton.jit(do_not_specialize=NOT_SPECIALIZED)
def _forward(
    q,
    k,
    v,
    o,
    lse,
    members,
    lists,
    stride_qn,
    stride_qh,
    stride_kn,
    stride_kh,
    stride_vn,
    stride_vh,
    n,
    heads,
    capacity,
    scale,
    PARENT: tl.constexpr,
    SIBLINGS: tl.constexpr,
    CHILDREN: tl.constexpr,
    INNER: tl.constexpr,
    LARGE: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    WIDTH: tl.constexpr,
    SIZE: tl.constexpr,
):
    """Attend within a closed tile, or, by online softmax, to all tiles of a large family."""
    head = tl.program_id(0) % heads
    tile = nth_tile(lists, tl.program_id(0) // heads, capacity, INNER, LARGE)
    node, role = load_members(members, tile, SIZE)
    code = query_code(role, CHILDREN)
    # (SIZE, WIDTH)
    queries = load_nodes(q, node, head, stride_qn, stride_qh, HEAD_DIM, WIDTH)
    if LARGE:
        top, _lanes, out = begin_softmax(SIZE, WIDTH)
        total = tl.zeros([SIZE], tl.float32)
        first, stop = family_tiles(lists, tile, capacity)
        for other in range(first, stop):
            key_node, key_role = load_members(members, other, SIZE)
            # (SIZE, WIDTH)
            keys = load_nodes(k, key_node, head, stride_kn, stride_kh, HEAD_DIM, WIDTH)
            values = load_nodes(v, key_node, head, stride_vn, stride_vh, HEAD_DIM, WIDTH)
            key = key_code(key_role, PARENT)
            mask = edge_mask(
                code[:, None], node[:, None], key[None, :], key_node[None, :], SIBLINGS
            )
            scores = masked_scores(queries, keys, mask, scale)
            new_top = tl.maximum(top, tl.max(scores, 1))
            weights, new_total = _softmax(scores, new_top)
            decay = tl.exp2(top - finite_top(new_top))
            total = total * decay + new_total
            out = dot(weights.to(values.dtype), values, out * decay[:, None])
            top = new_top
    else:
        # (SIZE, WIDTH)
        keys = load_nodes(k, node, head, stride_kn, stride_kh, HEAD_DIM, WIDTH)
        values = load_nodes(v, node, head, stride_vn, stride_vh, HEAD_DIM, WIDTH)
        key = key_code(role, PARENT)
        mask = edge_mask(code[:, None], node[:, None], key[None, :], node[None, :], SIBLINGS)
        scores = masked_scores(queries, keys, mask, scale)
        top = tl.max(scores, 1)
        weights, total = _softmax(scores, top)
        out = dot(weights.to(values.dtype), values)
    keep = is_finished(node, role, INNER)
    _store(o, lse, out, top, total, node, keep, head, n, heads, INNER, HEAD_DIM, WIDTH)


@triton.jit
def _softmax(scores, top):
    """Compute the weights relative to `top` and their sums, 0 for a query that sees no key."""
    weights = tl.exp2(scores - finite_top(top)[:, None])
    return weights, tl.sum(weights, 1)


@triton.jit
def _store(
    o,
    lse,
    out,
    top,
    total,
    node,
    keep,
    head,
    n,
    heads,
    INNER: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    WIDTH: tl.constexpr,
):
    """Store the outputs of the first pass, or merge those of the second with them."""
    total = tl.where(total == 0.0, 1.0, total)
    out *= (1 / total)[:, None]
    log_total = top + tl.log2(total)
    channel_mask = node_mask(keep, HEAD_DIM, WIDTH)
    out_pointers = node_pointers(o, node, head, heads * HEAD_DIM, HEAD_DIM, WIDTH)
    lse_pointers = lse + head * n + node
    if INNER:
        child_lse = tl.load(lse_pointers, mask=keep, other=0.0)
        child_out = tl.load(out_pointers, mask=channel_mask, other=0.0).to(tl.float32)
        child_share = 1 / (1 + tl.exp2(log_total - child_lse))
        out += child_share[:, None] * (child_out - out)
        larger = tl.maximum(log_total, child_lse)
        log_total = larger + tl.log2(tl.exp2(log_total - larger) + tl.exp2(child_lse - larger))
    tl.store(out_pointers, out.to(o.dtype.element_ty), mask=channel_mask)
    tl.store(lse_pointers, log_total, mask=keep)
