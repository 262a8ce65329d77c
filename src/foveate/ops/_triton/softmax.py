# Triton's dialect: kernels' arguments have no types, compile-time constants are capitals.
# ruff: noqa: N803
# mypy: disable-error-code=no-untyped-def
"""Softmax attention one tile at a time, forward (online softmax) and backward.

Scores are in base 2. While a program loops over tiles of keys, it holds for each query the highest
score so far, the sum of exp2(score - highest) and the sum of the values weighted by these. The sum
of weights is held in LANES parts, which are added at the end: the weights of a query are spread
over several threads, which then need not exchange their parts in every turn of the loop.

The backward pass recomputes the weights from the log-sum-exps. With P = exp2(scores - lse),
D = rowsum(dO ∘ O) and dS = P ∘ (dO Vᵀ - D), the gradients before scaling are

    dQ = dS K,    dK = dSᵀ Q,    dV = Pᵀ dO.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from .math import dot

LANES = tl.constexpr(8)
"""Number of parts of the sum of a query's weights; divides the number of keys in a tile."""


def empty_outputs(q: Tensor) -> tuple[Tensor, Tensor]:
    """Allocate the output of attention and its log-sum-exps.

    Args:
        q: Queries `(n, heads, head_dim)`.

    Returns:
        `(n, heads, head_dim)` in the dtype of `q`, and `(heads, n)` float32.
    """
    n, heads, _ = q.shape
    out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    return out, torch.empty(heads, n, dtype=torch.float32, device=q.device)


def empty_gradients(x: Tensor, count: int) -> Tensor:
    """Allocate the gradients of queries, keys and values, or of some of them, in one tensor.

    Args:
        x: What they are gradients of, `(n, heads, head_dim)` each.
        count: How many there are.

    Returns:
        `(n, count, heads, head_dim)` in the dtype of x.
    """
    n, heads, head_dim = x.shape
    return torch.empty(n, count, heads, head_dim, dtype=x.dtype, device=x.device)


@triton.jit
def begin_softmax(QUERIES: tl.constexpr, WIDTH: tl.constexpr):
    """Return the initial state: highest scores, sums of weights, sums of weighted values."""
    top = tl.full([QUERIES], float("-inf"), tl.float32)
    total = tl.zeros([QUERIES, LANES], tl.float32)
    return top, total, tl.zeros([QUERIES, WIDTH], tl.float32)


@triton.jit
def finite_top(top):
    """Return the highest scores, or 0 where no key was seen, so that -inf minus it stays -inf."""
    return tl.where(top == float("-inf"), 0.0, top)


@triton.jit
def update_softmax(scores, scale, constant, values, top, total, out, ALL_SEE: tl.constexpr = False):
    """Add a tile of keys to the state; its scores are `scale · scores + constant`.

    Args:
        scores: Queries down, keys across; -inf where a query does not see a key.
        scale: Factor on the scores, not negative.
        constant: Added to the scaled scores.
        values: Values of the keys.
        top: Highest scores so far.
        total: Sums of weights so far, in lanes.
        out: Sums of weighted values so far.
        ALL_SEE: Whether every query has seen a key once this tile is added, which saves a check.

    Returns:
        The new `top`, `total` and `out`.
    """
    new_top = tl.maximum(top, tl.max(scores, 1) * scale + constant)
    shift = new_top if ALL_SEE else finite_top(new_top)
    weights = tl.exp2(scores * scale - (shift - constant)[:, None])
    decay = tl.exp2(top - shift)
    out = dot(weights.to(values.dtype), values, out * decay[:, None])
    lanes = tl.reshape(weights, [weights.shape[0], weights.shape[1] // LANES, LANES])
    return new_top, total * decay[:, None] + tl.sum(lanes, 1), out


@triton.jit
def finish_softmax(top, total, out, EMPTY: tl.constexpr):
    """Compute outputs and base-2 log-sum-exps; 0 and `EMPTY` for queries that have seen no key.

    Where `EMPTY` is inf, such queries have weights of 0 in the backward pass.
    """
    total = tl.sum(total, 1)
    seen = total > 0
    total = tl.where(seen, total, 1.0)
    return out / total[:, None], tl.where(seen, top + tl.log2(total), EMPTY)


@triton.jit
def add_query_gradient(weights, grads, values, delta, keys, dq):
    """Add a tile of keys to the gradient of a tile of queries.

    Args:
        weights: P, queries down, keys across.
        grads: Gradient of the queries' outputs.
        values: Values of the keys.
        delta: D of the queries.
        keys: The keys.
        dq: Gradient of the queries so far, before scaling.

    Returns:
        dS, and the new `dq`.
    """
    d_scores = weights * (dot(grads, values.T) - delta[:, None])
    return d_scores, dot(d_scores.to(keys.dtype), keys, dq)


@triton.jit
def add_key_gradients(weights, grads, values, delta, queries, dk, dv):
    """Add a tile of queries to the gradients of a tile of keys and values.

    Args:
        weights: Pᵀ, keys down, queries across.
        grads: Gradient of the queries' outputs.
        values: Values of the keys.
        delta: D of the queries.
        queries: The queries.
        dk: Gradient of the keys so far, before scaling.
        dv: Gradient of the values so far.

    Returns:
        dSᵀ, and the new `dk` and `dv`.
    """
    d_scores = weights * (dot(values, grads.T) - delta[None, :])
    dv = dot(weights.to(grads.dtype), grads, dv)
    return d_scores, dot(d_scores.to(queries.dtype), queries, dk), dv
