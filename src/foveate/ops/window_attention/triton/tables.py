"""Which tiles of keys the backward pass finishes: those of windows, and those of side rows."""

from collections.abc import Sequence
from itertools import accumulate

import torch
from torch import Tensor

from foveate.ops._triton.cache import cached_for_graphs

CHUNK = 1024
"""Queries that one program adds up for a tile of side rows, as many as a wide window shows."""


def key_tiles(
    lengths: Sequence[int], side_lengths: Sequence[int] | None, size: int, device: torch.device
) -> Tensor:
    """Cut keys into tiles; a tile of side rows is there once for each chunk of queries.

    Args:
        lengths: rows of each sequence.
        side_lengths: side rows of each sequence; none if None.
        size: keys of a tile, fewer in the last one of a sequence.
        device: where the table goes.

    Returns:
        `(tiles, 6)` int32: row where the sequence starts, the tile's first key, counted from where
        its keys start, how many these are, where they start; rows of the sequence; the number of
        the chunk, -1 for keys of windows.
    """
    # As all tables: sent without waiting, for the stream that it was sent on.
    stream = torch.cuda.current_stream(device).cuda_stream if device.type == "cuda" else 0
    side = None if side_lengths is None else tuple(side_lengths)
    return _key_tiles(tuple(lengths), side, size, device, stream)


@cached_for_graphs(64)
def _key_tiles(
    lengths: tuple[int, ...],
    side_lengths: tuple[int, ...] | None,
    size: int,
    device: torch.device,
    stream: int,
) -> Tensor:
    starts = list(accumulate(lengths, initial=0))
    entries = [
        (start, first, n, start, n, -1)
        for start, n in zip(starts, lengths, strict=False)
        for first in range(0, n, size)
    ]
    side_lengths = side_lengths or ()
    side_starts = accumulate(side_lengths, initial=0)
    entries += [
        (start, first, m, side_start, n, chunk)
        for start, n, side_start, m in zip(starts, lengths, side_starts, side_lengths, strict=False)
        for first in range(0, m, size)
        for chunk in range(-(-n // CHUNK))
    ]
    table = torch.tensor(entries, dtype=torch.int32)
    return table.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else table
