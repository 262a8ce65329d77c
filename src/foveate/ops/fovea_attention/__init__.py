"""Fovea attention: nearby tokens one by one, distant ones in ever longer averages (Fovea, 2)."""

from collections.abc import Sequence

from torch import Tensor

from foveate.ops._packed.validation import (
    check_bias,
    check_lengths,
    check_scale,
    check_self_attention,
    check_sizes,
)
from foveate.ops.backends import autocast, choose

from . import eager as _eager
from . import reference as _reference
from .nodes import COVERAGES, PyramidNode, select_nodes

__all__ = ["COVERAGES", "PyramidNode", "fovea_attention", "select_nodes"]


def fovea_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    block_size: int,
    k_neighbours: int,
    coverage: str = "full",
    bias: Tensor | None = None,
    lengths: Sequence[int] | None = None,
    max_distance: int = 128,
    scale: float = 1.0,
    size_bias: bool = False,
    stop_level: int | None = None,
    backend: str | None = None,
) -> Tensor:
    """Attend within packed sequences, fine to coarse (Fovea, eq. 1-7).

    Each block of queries attends to itself and, on both sides, to `k_neighbours` nodes of level 0,
    1, 2, … laid end to end; a level-q node averages 2^q adjacent tokens at a time over 2^q blocks.
    The bias is T5's, as if the averages of these nodes, left to right, were consecutive tokens. A
    sequence of any length is cut into blocks from its start, and averages contain only its tokens.

    Time is O(n log n) and memory O(n) in the tokens if block_size is a power of two, or a power of
    two times a small number.

    Args:
        q: Queries `(tokens, heads, head_dim)`, any floating dtype, of packed sequences.
        k: Keys, same shape.
        v: Values, same shape.
        block_size: B, the number of tokens in a block.
        k_neighbours: k, the number of nodes of each level on each side.
        coverage: "full" lets every query see the whole sequence: the blocks beyond the last k nodes
            that fit are covered by the largest nodes that do. "paper" drops them, as the published
            code does.
        bias: T5's table `(num_buckets, heads)`, any floating dtype; no bias if None.
        lengths: The number of tokens in each sequence, host integers; one sequence if None.
        max_distance: Distance near which the last bucket begins.
        scale: Factor on the products; T5 has none.
        size_bias: Whether log(m) is added to the scores of an average of m tokens, which then
            weighs as much as m keys at their mean.
        stop_level: The number of levels, as published: nodes of the last level go on, more than k
            of them, to the end. None for as many levels as fit.
        backend: One of `foveate.ops.backends.BACKENDS`; if None, the environment's, or "auto".

    Returns:
        `(tokens, heads, head_dim)` in the dtype of `q`, differentiable in q, k, v and bias.

    Raises:
        ValueError: If shapes, dtypes, devices, lengths or buckets do not match, if a size is below
            1, if the coverage or the backend is unknown, or if the backend cannot run on these
            tensors.

    Example:
        >>> import torch
        >>> q, k, v = torch.randn(3, 1000, 2, 8)
        >>> table = torch.randn(32, 2)
        >>> fovea_attention(q, k, v, block_size=32, k_neighbours=1, bias=table).shape
        torch.Size([1000, 2, 8])
    """
    q, k, v = autocast(q), autocast(k), autocast(v)
    check_self_attention(q, k, v)
    check_bias(bias, q)
    check_scale(scale)
    check_sizes("block_size and k_neighbours", block_size, k_neighbours)
    if block_size < 1 or k_neighbours < 1:
        raise ValueError(
            f"block_size and k_neighbours must be at least 1, got {block_size} and {k_neighbours}"
        )
    if stop_level is not None and stop_level < 1:
        raise ValueError(f"stop_level must be at least 1 or None, got {stop_level}")
    if coverage not in COVERAGES:
        raise ValueError(f"unknown coverage {coverage!r}: choose among {list(COVERAGES)}")
    lengths = check_lengths("lengths", lengths, q)
    if not len(q):
        return q.clone()
    backend = choose(backend, q)
    if backend == "triton":
        from .triton import fovea_attention as attend
    else:
        attend = (_reference if backend == "reference" else _eager).fovea_attention
    return attend(
        q,
        k,
        v,
        block_size=block_size,
        k_neighbours=k_neighbours,
        coverage=coverage,
        bias=bias,
        lengths=lengths,
        max_distance=max_distance,
        scale=scale,
        size_bias=size_bias,
        stop_level=stop_level,
    )
