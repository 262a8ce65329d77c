"""The rows of a padded batch with their padding at the end, for CUDA graphs of any lengths."""

from dataclasses import dataclass

import torch
from torch import Tensor

from foveate.models.packing import PackedIndices, check_mask_shape


@dataclass(frozen=True)
class AlignedRows(PackedIndices):
    """The rows of a padded batch, with their real tokens moved to the front, and more padding.

    Building them does not wait for the device to find out which tokens are real.

    Attributes:
        lengths: Number of real tokens of each row, `(batch,)` int64.
        is_padding: `(batch, length)` bool; None where the batch has no padding.
        size: Number of tokens of each row with all its padding.
        indices: `(batch · length,)`, the position of each token in the flattened batch; None where
            the batch has no padding.
        shape: `(batch, length)` of the padded batch.
    """

    lengths: Tensor
    is_padding: Tensor | None
    size: int
    indices: Tensor | None
    shape: tuple[int, int]

    @classmethod
    def from_mask(
        cls, real: Tensor | None, shape: tuple[int, int], size: int, device: torch.device
    ) -> "AlignedRows":
        """Align the rows of a batch by its attention mask.

        Args:
            real: `(batch, length)`, not 0 at real tokens; None where all tokens are real.
            shape: `(batch, length)`.
            size: Number of tokens of each row with its padding, at least `length`.
            device: The device of the tokens.

        Raises:
            ValueError: The mask has another shape.
        """
        batch, length = shape
        if real is None:
            lengths = torch.full((batch,), length, device=device)
            return cls(lengths, None, size, None, shape)
        check_mask_shape(real, shape)
        is_padding = real == 0
        first = torch.arange(0, batch * length, length, device=device)[:, None]
        indices = first + is_padding.int().argsort(dim=1, stable=True)
        return cls(length - is_padding.sum(1), is_padding, size, indices.flatten(), shape)

    def pack(self, padded: Tensor) -> Tensor:
        """Gather `(batch, length, ...)` to `(batch · size, ...)`."""
        rows: Tensor = super().pack(padded).unflatten(0, self.shape)
        padding = rows.new_zeros(len(rows), self.size - rows.shape[1], *rows.shape[2:])
        return torch.cat([rows, padding], dim=1).flatten(0, 1)

    def unpack(self, packed: Tensor) -> Tensor:
        """Scatter `(batch · size, ...)` to `(batch, length, ...)`, zero at padding."""
        rows = packed.unflatten(0, (-1, self.size))[:, : self.shape[1]]
        padded = super().unpack(rows.flatten(0, 1))
        if self.is_padding is None:
            return padded
        return padded.masked_fill(self.is_padding[..., None], 0)
