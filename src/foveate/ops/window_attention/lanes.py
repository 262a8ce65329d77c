"""Dilated windows: each d-th row of a sequence is a lane, and in lanes windows are plain."""

from collections.abc import Callable, Sequence
from itertools import accumulate

import torch
from torch import Tensor

from .side import Side


def attend_lanes(
    attend: Callable[..., Tensor],
    q: Tensor,
    k: Tensor,
    v: Tensor,
    side: Side,
    hidden: Tensor | None,
    dilation: int,
    lengths: Sequence[int],
) -> Tensor:
    """Call `attend` with rows in the order of lanes, as if each of these were a sequence.

    Args:
        attend: takes q, k, v, side, hidden and lengths.
        q: queries `(n, heads, head_dim)`.
        k: keys, same shape.
        v: values, same shape.
        side: side rows; every lane of a sequence sees them.
        hidden: `(n,)` bool or None.
        dilation: lanes of a sequence, fewer where it is shorter.
        lengths: rows of each sequence.
    """
    starts, side_starts = accumulate(lengths, initial=0), accumulate(side.lengths, initial=0)
    lanes, side_rows, side_lengths = [], [], []
    for n, start, m, side_start in zip(lengths, starts, side.lengths, side_starts, strict=False):
        for first in range(min(dilation, n)):
            lanes.append(torch.arange(start + first, start + n, dilation))
            side_rows.append(torch.arange(side_start, side_start + m))
            side_lengths.append(m)
    order, side_order = torch.cat(lanes).to(q.device), torch.cat(side_rows).to(q.device)
    side = side._replace(
        k=side.k.index_select(0, side_order),
        v=side.v.index_select(0, side_order),
        lengths=side_lengths,
        positions=None if side.positions is None else side.positions[order],
    )
    q, k, v = (x.index_select(0, order) for x in (q, k, v))
    hidden = None if hidden is None else hidden[order]
    out = attend(q, k, v, side, hidden, [len(lane) for lane in lanes])
    return out.index_select(0, order.argsort())
