"""Sliding window attention, with rows beside the sequence that all of its queries see."""

from collections.abc import Sequence
from itertools import groupby

from torch import Tensor, cat

from foveate.ops.backends import autocast, choose
from foveate.ops.relative_attention.validation import check_bias, whole_lengths

from . import eager as _eager
from . import reference as _reference
from .everywhere import global_attention
from .lanes import attend_lanes
from .side import Side
from .validation import (
    check_hidden,
    check_rows,
    check_side,
    check_window,
    dilation_of_heads,
)

__all__ = ["Side", "global_attention", "window_attention"]


def window_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    window: tuple[int, int],
    *,
    side: Side | None = None,
    bias: Tensor | None = None,
    hidden: Tensor | None = None,
    dilation: int | Sequence[int] = 1,
    lengths: Sequence[int] | None = None,
    max_distance: int = 128,
    scale: float | None = None,
    backend: str | None = None,
) -> Tensor:
    """Attend the rows around each query, and the side rows of its sequence, in one softmax.

    With window (l, r) and dilation d, query i of a sequence sees its rows i - l·d, …, i - d, i,
    i + d, …, i + r·d, as far as there are such rows and they are not hidden; the score of row j is

        scale · q_i·k_j + bias[bucket(j - i)].

    It sees all side rows of its sequence too; the score of the g-th of them is

        scale · q_i·side.k_g + side.bias[bucket(g - side.positions[i])].

    In Longformer's and LED's local attention the global tokens are hidden and have their keys and
    values among the side rows, so that a query sees each of them once; in LongT5's
    transient-global attention the side rows are summaries of blocks. Memory is linear in the rows
    of both kinds, and gradients reach q, k, v, the side rows and the biases.

    Args:
        q: queries `(tokens, heads, head_dim)`, any floating dtype, sequences one after the other.
            Slices of one fused projection are read in place.
        k: keys, same shape.
        v: values, same shape.
        window: rows to the left and to the right; (256, 256) is Longformer's window of 512.
        side: the rows that all queries of a sequence see; none if None.
        bias: `(num_buckets, heads)`, a table of T5's buckets, any floating dtype; none where None.
        hidden: `(tokens,)` bool, the rows that no window shows; as queries they are like others.
        dilation: distance of neighbours in a window, one for all heads or one for each.
        lengths: rows of each sequence, host integers; one sequence if None.
        max_distance: distance near which the last bucket of the biases begins.
        scale: factor on the products, 1/√head_dim if None.
        backend: "triton" (kernels for GPUs, linear memory), "eager" (any device, linear memory),
            "reference" (the dense definition), or "auto": triton where it can run, torch
            elsewhere. If None, what the environment variable FOVEATE_BACKEND says, "auto" if
            nothing.

    Returns:
        `(tokens, heads, head_dim)` in the dtype of `q`, which is 0 for a query that sees nothing.

    Raises:
        ValueError: shapes, dtypes, devices or lengths that do not fit together, a window below 0,
            a dilation below 1 or together with a bias, too few buckets, an unknown backend, or one
            that cannot run on these tensors.

    Example:
        >>> import torch
        >>> q, k, v = torch.randn(3, 7, 2, 8)  # a sequence of five rows and one of two
        >>> first = torch.tensor([0, 5])  # each begins with a global token
        >>> hidden = torch.zeros(7, dtype=torch.bool).index_fill(0, first, True)
        >>> side = Side(k[first], v[first], lengths=[1, 1])
        >>> window_attention(q, k, v, (1, 1), side=side, hidden=hidden, lengths=[5, 2]).shape
        torch.Size([7, 2, 8])
    """
    q, k, v = autocast(q), autocast(k), autocast(v)
    check_rows(q, k, v)
    lengths = whole_lengths("lengths", lengths, q)
    check_window(window)
    dilations = dilation_of_heads(dilation, q.shape[1])
    check_bias(bias, q)
    if bias is not None and max(dilations, default=1) > 1:
        raise ValueError("bias and dilation exclude each other: no model has both")
    check_hidden(hidden, q)
    if side is None:
        side = Side(k.detach()[:0], v.detach()[:0], (0,) * len(lengths))
    else:
        side = side._replace(k=autocast(side.k), v=autocast(side.v), lengths=tuple(side.lengths))
        check_side(side, q, len(lengths))
    backend = choose(backend, q)
    if q.numel() == 0:
        return q.clone()
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    window = min(window[0], max(lengths)), min(window[1], max(lengths))
    if backend == "reference":
        return _reference.window_attention(
            q, k, v, side, bias, hidden, window, dilations, lengths, max_distance, scale
        )
    if backend == "triton":
        from .triton import window_attention as attend
    else:
        attend = _eager.window_attention

    def attend_plain(
        q: Tensor, k: Tensor, v: Tensor, side: Side, hidden: Tensor | None, lengths: Sequence[int]
    ) -> Tensor:
        return attend(q, k, v, side, bias, hidden, window, lengths, max_distance, scale)

    if max(dilations) == 1:
        return attend_plain(q, k, v, side, hidden, lengths)
    outs, head = [], 0
    for step, run in groupby(dilations):
        heads = slice(head, head := head + len(list(run)))
        rows = q[:, heads], k[:, heads], v[:, heads]
        outs.append(attend_lanes(attend_plain, *rows, side.of_heads(heads), hidden, step, lengths))
    return cat(outs, 1)
