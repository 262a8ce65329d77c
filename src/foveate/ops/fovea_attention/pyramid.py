"""Averages of adjacent rows at every level, in linear memory (Fovea, eq. 1-2).

Row i of the level-q node at block s averages the 2^q tokens from s·B + i·2^q on, where B is the
size of a block. So level q is made of windows of 2^q tokens, and nodes differ only in which of
them they take. As s·B and i·2^q are multiples of their greatest common divisor g, so are the
starts of all these windows: one window at every g-th token serves every node. For a power of two
B, g is 2^q while a window is smaller than a block, and then stays B: levels 0, 1, 2, … take n,
n/2, n/4, … rows down to n/B.
"""

from itertools import accumulate
from math import gcd

import torch
from torch import Tensor
from torch.nn.functional import pad

from .plan import Node


def pyramid(x: Tensor, block_size: int, levels: int) -> Tensor:
    """Windows of a sequence at levels 0 to `levels` - 1, one level after the other.

    Args:
        x: `(n, heads, head_dim)`.
        block_size: B.
        levels: how many.

    Returns:
        `(rows, heads, head_dim)`, at least float32. A window that the sequence ends in averages the
        tokens it has.
    """
    x = x.to(torch.promote_types(x.dtype, torch.float32))
    sums, means = [x], [x]
    for level in range(1, levels):
        narrow, wide = _stride(level - 1, block_size), _stride(level, block_size)
        half = (1 << level - 1) // narrow
        left, right = sums[-1][:: wide // narrow], sums[-1][half :: wide // narrow]
        sums.append(left + pad(right, (0, 0, 0, 0, 0, len(left) - len(right))))
        starts = torch.arange(0, len(x), wide, device=x.device)
        means.append(sums[-1] / (len(x) - starts).clamp(max=1 << level)[:, None, None])
    return torch.cat(means)


class Layout:
    """Where nodes stand in the pyramid of a sequence of `length` tokens that begins at a row."""

    def __init__(self, length: int, block_size: int, levels: int, first_row: int = 0):
        self.length, self.block_size = length, block_size
        sizes = (-(-length // _stride(level, block_size)) for level in range(levels))
        *self.first_rows, self.end = accumulate(sizes, initial=first_row)

    def rows_of(self, node: Node) -> range:
        """Rows of a node: B of them, or fewer where the sequence ends in it."""
        start, window = node.start * self.block_size, 1 << node.level
        rows = min(self.block_size, -(-(self.length - start) // window))
        stride = _stride(node.level, self.block_size)
        first, step = self.first_rows[node.level] + start // stride, window // stride
        return range(first, first + rows * step, step)


def _stride(level: int, block_size: int) -> int:
    """Tokens from the start of a window to the start of the next."""
    return gcd(1 << level, block_size)
