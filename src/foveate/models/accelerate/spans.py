"""Padded batches as spans: of each sequence, the rows from its first real token to its last.

Windows show rows by their places, so padding between real tokens keeps its rows, hidden from all.
"""

import warnings

from torch import Tensor

from foveate.models.padding import Packed


def spans(real: Tensor | None, shape: tuple[int, int]) -> tuple[Packed, Tensor | None]:
    """Pack a batch `(batch, length)` by its mask; all of it is real where that is None.

    Returns:
        Where the rows of the spans stand, and which of these rows are padding, `(tokens,)` bool,
        None where none is.
    """
    packed = Packed.of(real, shape)
    if real is None or not packed.has_gaps:
        return packed, None
    begun, goes_on = real.cumsum(1) > 0, real.flip(1).cumsum(1).flip(1) > 0
    packed = Packed.of(begun & goes_on, shape)
    return packed, packed.pack(~real)


def warn_of_weights() -> None:
    """Say that a model which is asked for attention weights is not accelerated."""
    warnings.warn(
        "attention weights are asked for: this model computes them as before it was accelerated",
        stacklevel=3,
    )
