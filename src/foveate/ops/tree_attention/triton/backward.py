# Triton's dialect: kernels' arguments have no types, compile-time constants are capitals.
# ruff: noqa: N803
# mypy: disable-error-code=no-untyped-def
"""The backward kernel: a program finishes dQ, dK and dV of one head of one tile.

With P = exp(scores - lse), D = rowsum(dO ∘ O) and dS = P ∘ (dO Vᵀ - D) · scale:
dV = Pᵀ dO, dK = dSᵀ Q, dQ = dS K. Both ends of every edge are in one tile, or in two tiles of one
large family, so one program owns each sum and adds its terms in a fixed order: gradients are equal
bit for bit from run to run.
"""

import triton
import triton.language as tl
from torch import Tensor

from foveate.ops._triton.math import dot
from foveate.ops._triton.softmax import empty_gradients

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


def backward(
    grad: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    o: Tensor,
    lse: Tensor,
    tiles: ForestTiles,
    edges: tuple[bool, bool, bool],
    scale: float,
) -> Tensor:
    """Compute the gradients of q, k and v from that of the output: `(n, 3, heads, head_dim)`."""
    gradients = empty_gradients(q, 3)
    tensors = (q, k, v, o, grad, lse, *gradients.unbind(1))
    inputs = (*q.stride()[:2], *k.stride()[:2], *v.stride()[:2], *grad.stride()[:2])
    strides = (*inputs, gradients.stride(0))
    launch_passes(
        _backward,
        tensors,
        strides,
        tiles,
        edges,
        scale,
        registers=(128, 168),
        programs_per_large_tile=2,
    )
    return gradients


@triton.jit(do_not_specialize=NOT_SPECIALIZED)
def _backward(
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
    stride_qn,
    stride_qh,
    stride_kn,
    stride_kh,
    stride_vn,
    stride_vh,
    stride_gn,
    stride_gh,
    stride_dn,
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
    """Finish a closed tile, whose edges one tile of scores holds, or one of a large family.

    Of a large family's tile, one program sums the gradients of its keys and values over the
    family's tiles as queries, and another those of its queries over the tiles as keys.
    """
    head = tl.program_id(0) % heads
    job = tl.program_id(0) // heads
    tile = nth_tile(lists, job // 2 if LARGE else job, capacity, INNER, LARGE)
    node, role = load_members(members, tile, SIZE)
    keep = is_finished(node, role, INNER)
    if not LARGE:
        # (SIZE, WIDTH)
        queries = load_nodes(q, node, head, stride_qn, stride_qh, HEAD_DIM, WIDTH)
        keys = load_nodes(k, node, head, stride_kn, stride_kh, HEAD_DIM, WIDTH)
        values = load_nodes(v, node, head, stride_vn, stride_vh, HEAD_DIM, WIDTH)
        grads, outs, log_total = _load_outputs(
            grad, o, lse, node, head, stride_gn, stride_gh, n, heads, HEAD_DIM, WIDTH
        )
        mask = _mask(node, role, node, role, PARENT, SIBLINGS, CHILDREN)
        weights, slopes = _slopes(keys, values, queries, grads, outs, log_total, mask, scale)
        _store(dv, dot(weights, grads), node, keep, head, stride_dn, INNER, HEAD_DIM, WIDTH)
        _store(dk, dot(slopes, queries), node, keep, head, stride_dn, INNER, HEAD_DIM, WIDTH)
        _store(dq, dot(slopes.T, keys), node, keep, head, stride_dn, INNER, HEAD_DIM, WIDTH)
    else:
        first, stop = family_tiles(lists, tile, capacity)
        if job % 2 == 0:
            # (SIZE, WIDTH)
            keys = load_nodes(k, node, head, stride_kn, stride_kh, HEAD_DIM, WIDTH)
            values = load_nodes(v, node, head, stride_vn, stride_vh, HEAD_DIM, WIDTH)
            dk_sum = tl.zeros([SIZE, WIDTH], tl.float32)
            dv_sum = tl.zeros([SIZE, WIDTH], tl.float32)
            for other in range(first, stop):
                other_node, other_role = load_members(members, other, SIZE)
                # (SIZE, WIDTH)
                queries = load_nodes(q, other_node, head, stride_qn, stride_qh, HEAD_DIM, WIDTH)
                grads, outs, log_total = _load_outputs(
                    grad, o, lse, other_node, head, stride_gn, stride_gh, n, heads, HEAD_DIM, WIDTH
                )
                mask = _mask(node, role, other_node, other_role, PARENT, SIBLINGS, CHILDREN)
                weights, slopes = _slopes(
                    keys, values, queries, grads, outs, log_total, mask, scale
                )
                dv_sum = dot(weights, grads, dv_sum)
                dk_sum = dot(slopes, queries, dk_sum)
            _store(dv, dv_sum, node, keep, head, stride_dn, INNER, HEAD_DIM, WIDTH)
            _store(dk, dk_sum, node, keep, head, stride_dn, INNER, HEAD_DIM, WIDTH)
        else:
            # (SIZE, WIDTH)
            queries = load_nodes(q, node, head, stride_qn, stride_qh, HEAD_DIM, WIDTH)
            grads, outs, log_total = _load_outputs(
                grad, o, lse, node, head, stride_gn, stride_gh, n, heads, HEAD_DIM, WIDTH
            )
            dq_sum = tl.zeros([SIZE, WIDTH], tl.float32)
            for other in range(first, stop):
                other_node, other_role = load_members(members, other, SIZE)
                # (SIZE, WIDTH)
                keys = load_nodes(k, other_node, head, stride_kn, stride_kh, HEAD_DIM, WIDTH)
                values = load_nodes(v, other_node, head, stride_vn, stride_vh, HEAD_DIM, WIDTH)
                mask = _mask(other_node, other_role, node, role, PARENT, SIBLINGS, CHILDREN)
                _, slopes = _slopes(keys, values, queries, grads, outs, log_total, mask, scale)
                dq_sum = dot(slopes.T, keys, dq_sum)
            _store(dq, dq_sum, node, keep, head, stride_dn, INNER, HEAD_DIM, WIDTH)


@triton.jit
def _load_outputs(
    grad,
    o,
    lse,
    node,
    head,
    stride_gn,
    stride_gh,
    n,
    heads,
    HEAD_DIM: tl.constexpr,
    WIDTH: tl.constexpr,
):
    """Load the outputs of nodes: their gradients, the outputs themselves, and log-sum-exps."""
    # (SIZE, WIDTH)
    grads = load_nodes(grad, node, head, stride_gn, stride_gh, HEAD_DIM, WIDTH)
    outs = load_nodes(o, node, head, heads * HEAD_DIM, HEAD_DIM, HEAD_DIM, WIDTH)
    return grads, outs, tl.load(lse + head * n + node, mask=node >= 0, other=0.0)


@triton.jit
def _mask(
    key_node,
    key_role,
    query_node,
    query_role,
    PARENT: tl.constexpr,
    SIBLINGS: tl.constexpr,
    CHILDREN: tl.constexpr,
):
    """Return whether queries attend to keys, keys down and queries across: `(SIZE, SIZE)`."""
    query, key = query_code(query_role, CHILDREN), key_code(key_role, PARENT)
    return edge_mask(query[None, :], query_node[None, :], key[:, None], key_node[:, None], SIBLINGS)


@triton.jit
def _slopes(keys, values, queries, grads, outs, log_total, mask, scale):
    """Pᵀ and dSᵀ, keys down and queries across: `(SIZE, SIZE)` in the inputs' dtype."""
    weights = tl.exp2(masked_scores(keys, queries, mask, scale) - log_total[None, :])
    delta = tl.sum(grads.to(tl.float32) * outs.to(tl.float32), 1)
    slopes = weights * (dot(values, grads.T) - delta[None, :]) * scale
    return weights.to(queries.dtype), slopes.to(queries.dtype)


@triton.jit
def _store(
    x,
    value,
    node,
    keep,
    head,
    stride_dn,
    INNER: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    WIDTH: tl.constexpr,
):
    """Store the first pass's part of a gradient, or add the second's to it."""
    pointers = node_pointers(x, node, head, stride_dn, HEAD_DIM, WIDTH)
    mask = node_mask(keep, HEAD_DIM, WIDTH)
    if INNER:
        value += tl.load(pointers, mask=mask, other=0.0).to(tl.float32)
    tl.store(pointers, value.to(x.dtype.element_ty), mask=mask)
