"""The tiles of keys that the backward pass finishes, those of windows and of global tokens."""

from collections.abc import Sequence
from itertools import accumulate

import torch
from torch import Tensor

from foveate.ops._triton.cache import cached_for_graphs, send, stream_id

CHUNK = 1024
"""Queries that one program sums over for a tile of global keys, about a wide window's number."""


def key_tiles(
    lengths: Sequence[int], global_lengths: Sequence[int] | None, size: int, device: torch.device
) -> Tensor:
    """Cut keys into tiles; a tile of global keys occurs once for each chunk of queries.

    Args:
        lengths: The number of tokens in each sequence.
        global_lengths: The number of global keys in each sequence; none if None.
        size: Keys of a tile; the last one of a sequence may have fewer.
        device: Device of the table.

    Returns:
        `(tiles, 6)` int32: the start of the sequence; the tile's first key, counted from the start
        of its keys, their number and their start; the length of the sequence; and the number of the
        chunk, -1 for keys of windows.
    """
    global_key = None if global_lengths is None else tuple(global_lengths)
    return _key_tiles(tuple(lengths), global_key, size, device, stream_id(device))


@cached_for_graphs(64)
def _key_tiles(
    lengths: tuple[int, ...],
    global_lengths: tuple[int, ...] | None,
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
    global_lengths = global_lengths or ()
    global_starts = accumulate(global_lengths, initial=0)
    entries += [
        (start, first, m, global_start, n, chunk)
        for start, n, global_start, m in zip(
            starts, lengths, global_starts, global_lengths, strict=False
        )
        for first in range(0, m, size)
        for chunk in range(-(-n // CHUNK))
    ]
    return send(torch.tensor(entries, dtype=torch.int32), device)
