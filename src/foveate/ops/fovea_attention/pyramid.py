"""Averages of adjacent tokens at every level, in linear memory (Fovea, eq. 1-2).

Entry i of the level-q node at block s averages the 2^q tokens from s·B + i·2^q on, where B is the
size of a block. So level q consists of windows of 2^q tokens, and nodes differ only in which of
these they contain. As s·B and i·2^q are multiples of their greatest common divisor g, so are the
starts of all these windows: one window at every g-th token serves every node. If B is a power of
two, g is 2^q while a window is smaller than a block, and B from then on: levels 0, 1, 2, … take n,
n/2, n/4, … windows, down to n/B.
"""

from itertools import accumulate
from math import gcd

import torch
from torch import Tensor
from torch.nn.functional import pad

from foveate.ops.precision import widened

from .nodes import PyramidNode


def build_pyramid(x: Tensor, block_size: int, num_levels: int) -> Tensor:
    """Average a sequence over the windows of each level.

    Args:
        x: `(tokens, heads, head_dim)`.
        block_size: B.
        num_levels: The number of levels, of which level 0 is the tokens themselves.

    Returns:
        Windows of all levels, concatenated, `(windows, heads, head_dim)`, at least float32. A
        window at the end of the sequence averages the tokens that exist.
    """
    x = widened(x)
    sums, means = [x], [x]
    for level in range(1, num_levels):
        narrow, wide = window_stride(level - 1, block_size), window_stride(level, block_size)
        half = (1 << level - 1) // narrow
        left, right = sums[-1][:: wide // narrow], sums[-1][half :: wide // narrow]
        sums.append(left + pad(right, (0, 0, 0, 0, 0, len(left) - len(right))))
        sizes = window_sizes(len(x), level, block_size, x.device)
        means.append(sums[-1] / sizes[:, None, None])
    return torch.cat(means)


class PyramidIndex:
    """The indices of nodes' windows in the pyramid of a sequence of `length` tokens.

    Attributes:
        end: The end of the pyramid, which starts at `start`.
    """

    def __init__(self, length: int, block_size: int, num_levels: int, start: int = 0):
        self.length, self.block_size = length, block_size
        sizes = (-(-length // window_stride(level, block_size)) for level in range(num_levels))
        *self.level_starts, self.end = accumulate(sizes, initial=start)

    def window_indices(self, node: PyramidNode) -> range:
        """Return the indices of a node's windows: B of them, or fewer at the end of a sequence."""
        start, window = node.start * self.block_size, 1 << node.level
        num_windows = min(self.block_size, -(-(self.length - start) // window))
        stride = window_stride(node.level, self.block_size)
        first, step = self.level_starts[node.level] + start // stride, window // stride
        return range(first, first + num_windows * step, step)


def window_sizes(
    length: int, level: int, block_size: int, device: torch.device | None = None
) -> Tensor:
    """Return the number of tokens in each window of a level, int64."""
    starts = torch.arange(0, length, window_stride(level, block_size), device=device)
    return (length - starts).clamp(max=1 << level)


def window_stride(level: int, block_size: int) -> int:
    """Return the number of tokens from the start of a window of a level to that of the next."""
    return gcd(1 << level, block_size)
