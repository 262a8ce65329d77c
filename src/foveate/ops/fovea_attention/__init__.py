"""Fovea attention: near tokens one by one, farther ones by ever longer averages (Fovea, 2)."""

from collections.abc import Sequence

from torch import Tensor

from foveate.ops.backends import autocast, choose
from foveate.ops.relative_attention.buckets import bias_by_distance
from foveate.ops.relative_attention.validation import check_bias, check_rows, whole_lengths

from . import eager as _eager
from . import reference as _reference
from .plan import COVERAGES, Node, plan

__all__ = ["COVERAGES", "Node", "fovea_attention", "plan"]


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
    backend: str | None = None,
) -> Tensor:
    """Attend packed sequences fine to coarse (Fovea, eq. 1-7).

    Each block of queries attends itself and, on both sides, `k_neighbours` nodes of level 0, 1,
    2, … end to end; a level-q node averages 2^q adjacent tokens at a time over 2^q blocks. The
    bias is T5's, as if the rows of these nodes, left to right, were consecutive tokens. A sequence
    of any length is cut into blocks from its start, and averages are over its own tokens alone.

    Time is O(n log n) and memory O(n) in the tokens where block_size is a power of two, or nearly:
    where it is 2^p times something small. Gradients reach q, k, v and bias.

    Args:
        q: queries `(tokens, heads, head_dim)`, any floating dtype, sequences one after the other.
        k: keys, same shape.
        v: values, same shape.
        block_size: B, tokens in a block.
        k_neighbours: k, nodes of each level on each side.
        coverage: "full" lets every query see the whole sequence: what is left beyond the last k
            nodes that fit is tiled by the largest nodes that do. "paper" leaves it out, as the
            published code does.
        bias: `(num_buckets, heads)`, any floating dtype; none where None.
        lengths: tokens in each sequence, host integers; one sequence if None.
        max_distance: distance near which the last bucket begins.
        scale: factor on the products; T5 has none.
        backend: "triton", "eager", "reference" or "auto", as of `tree_attention`.

    Returns:
        `(tokens, heads, head_dim)` in the dtype of `q`.

    Raises:
        ValueError: shapes, dtypes, devices, lengths or buckets that do not fit together, a size
            below 1, or an unknown coverage.

    Example:
        >>> import torch
        >>> q, k, v = torch.randn(3, 1000, 2, 8)
        >>> table = torch.randn(32, 2)
        >>> fovea_attention(q, k, v, block_size=32, k_neighbours=1, bias=table).shape
        torch.Size([1000, 2, 8])
    """
    q, k, v = autocast(q), autocast(k), autocast(v)
    check_rows(q, k, v)
    if q.shape != k.shape:
        raise ValueError(f"q and k must share one shape, got {tuple(q.shape)} and {tuple(k.shape)}")
    check_bias(bias, q)
    if block_size < 1 or k_neighbours < 1:
        raise ValueError(
            f"block_size and k_neighbours must be at least 1, got {block_size} and {k_neighbours}"
        )
    if coverage not in COVERAGES:
        raise ValueError(f"unknown coverage {coverage!r}: choose among {list(COVERAGES)}")
    lengths = whole_lengths("lengths", lengths, q)
    if not lengths:
        return q.clone()
    backend = choose(backend, q)
    sizes = block_size, k_neighbours, coverage
    if backend == "triton":
        from .triton import fovea_attention as attend_tiles

        return attend_tiles(q, k, v, *sizes, bias, lengths, max_distance, scale)
    if backend == "reference":
        return _reference.fovea_attention(q, k, v, *sizes, bias, lengths, max_distance, scale)
    if bias is not None:
        bias = bias_by_distance(bias, max_distance, bidirectional=True)
    return _eager.fovea_attention(q, k, v, *sizes, bias, lengths, scale)
