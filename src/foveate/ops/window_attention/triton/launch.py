"""What makes scores of products inside of windows."""

from typing import NamedTuple

import torch
from torch import Tensor

from foveate.ops.relative_attention.triton.launch import Scoring

COUNTS = ("n", "n_tiles", "left", "right", "reach", "middle")
"""Numbers that kernels are not compiled for anew."""


class Windows(NamedTuple):
    """Everything in a score but the product of query and key."""

    scoring: Scoring
    """The bias by distance, and the scale."""
    hidden: Tensor | None
    """Rows that no window shows, `(n,)` uint8."""
    left: int
    right: int

    @classmethod
    def by_table(
        cls,
        bias: Tensor | None,
        hidden: Tensor | None,
        left: int,
        right: int,
        max_distance: int,
        scale: float,
    ) -> "Windows":
        """Look a table `(num_buckets, heads)` up by distance."""
        scoring = Scoring.by_table(bias, None, None, None, False, max_distance, scale)
        return cls(scoring, None if hidden is None else hidden.view(torch.uint8), left, right)

    @property
    def arguments(self) -> tuple[Tensor | int | float | None, ...]:
        """What every kernel takes."""
        bias, reach, scale = self.scoring.bias, self.scoring.reach, self.scoring.scale
        middle = 0 if bias is None else bias.shape[1] // 2
        return bias, self.hidden, self.left, self.right, reach, middle, scale
