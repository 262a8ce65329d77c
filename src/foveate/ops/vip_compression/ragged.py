"""Packed rows of sequences of different lengths as one padded tensor."""

from functools import lru_cache

import torch
from torch import Tensor


class Ragged:
    """Where the rows of packed sequences stand when each is padded to the longest.

    Args:
        lengths: rows of each sequence, host integers.
        device: of the rows.

    Attributes:
        lengths: likewise.
        longest: the greatest of them.
        counts: the lengths on the device, `(sequences,)`.
        starts: `(sequences,)`, the first row of each.
        absent: `(sequences, longest)` bool, where padding is; None where there is none.
    """

    def __init__(self, lengths: tuple[int, ...], device: torch.device | str | None) -> None:
        self.lengths, self.longest = lengths, max(lengths)
        counts = torch.tensor(self.lengths)
        starts = counts.cumsum(0) - counts
        self.counts, self.starts = counts.to(device), starts.to(device)
        self.absent = None
        if min(lengths) < self.longest:
            column = torch.arange(self.longest)
            present = column < counts[:, None]
            rows = (starts[:, None] + column).clamp(max=sum(lengths) - 1)
            self._rows, self.absent = rows.to(device), (~present).to(device)
            self._cells = present.flatten().nonzero()[:, 0].to(device)

    def pad(self, packed: Tensor) -> Tensor:
        """`(rows, ...)` to `(sequences, longest, ...)`, with any row at padding."""
        if self.absent is None:
            return packed.unflatten(0, (len(self.lengths), self.longest))
        return packed[self._rows]

    def unpad(self, padded: Tensor) -> Tensor:
        """`(sequences, longest, ...)` to `(rows, ...)`."""
        flat = padded.flatten(0, 1)
        return flat if self.absent is None else flat.index_select(0, self._cells)


@lru_cache(
    maxsize=64
)  # batches of equal lengths come again, and copying lengths waits for the device
def ragged(lengths: tuple[int, ...], device: torch.device | str | None) -> Ragged:
    """Say where rows stand; not to be changed, as all get the same."""
    with torch.inference_mode(False):  # or what is made in inference would not do for training
        return Ragged(lengths, device)
