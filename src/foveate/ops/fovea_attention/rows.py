"""Rows of a padded batch whose real lengths only the device knows."""

from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from .triton.schedule import Schedule, ScheduleKey


class PaddedRows:
    """Rows with the same number of tokens: first the real ones, then padding.

    The kernels read from the device how many tokens are real, so the host need not wait for it, and
    one CUDA graph serves rows of any lengths. All calls with the same object share what is computed
    from the lengths: make a new one where these may have changed.

    Args:
        lengths: Number of real tokens of each row, `(rows,)` int64; those outside of 0 to `size`
            count as the nearer of the two.
        size: Number of tokens of each row with its padding.

    Raises:
        ValueError: The lengths are not int64 of one dimension, or the size is below 1.

    Example:
        >>> import torch
        >>> from foveate.ops.fovea_attention import PaddedRows, fovea_attention
        >>> rows = PaddedRows(torch.tensor([70, 0, 256]), 256)
        >>> q, k, v = torch.randn(3, 3 * 256, 2, 8)
        >>> fovea_attention(q, k, v, block_size=32, k_neighbours=1, lengths=rows)[70].norm()
        tensor(0.)
    """

    def __init__(self, lengths: Tensor, size: int) -> None:
        if lengths.dim() != 1 or lengths.dtype != torch.int64 or size < 1:
            raise ValueError(
                "rows have (rows,) int64 lengths and a size of at least 1, got lengths of shape "
                f"{tuple(lengths.shape)} and dtype {lengths.dtype}, and a size of {size}"
            )
        self.lengths, self.size = lengths.clamp(0, size), size  # checking them would mean waiting
        self._schedules: dict[ScheduleKey, Schedule] = {}

    @property
    def capacities(self) -> tuple[int, ...]:
        """The number of tokens of each row with its padding."""
        return (self.size,) * len(self.lengths)

    def real_tokens(self) -> tuple[Tensor, list[int]]:
        """Return the indices of the real tokens and the lengths of rows that have any; waits."""
        is_real = torch.arange(self.size, device=self.lengths.device) < self.lengths[:, None]
        lengths: list[int] = self.lengths.tolist()
        return is_real.flatten().nonzero()[:, 0], [length for length in lengths if length]

    def schedule(self, key: "ScheduleKey") -> "Schedule":
        """Return the schedule of the kernels."""
        if key not in self._schedules:
            from .triton.schedule import build_padded_schedule

            self._schedules[key] = build_padded_schedule(key, self.lengths)
        return self._schedules[key]
