# Triton's dialect: kernels' arguments have no types, compile-time constants are capitals.
# mypy: disable-error-code=no-untyped-def
"""Tables of the tiles of packed sequences, which the host builds once and programs read."""

from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

from foveate.ops._triton.cache import cached_for_graphs, send, stream_id


def sequence_tiles(
    lengths: Sequence[int],
    other_lengths: Sequence[int],
    size: int,
    other_size: int,
    device: torch.device,
) -> Tensor:
    """Cut packed sequences into tiles of `size` tokens, none of which spans two sequences.

    Args:
        lengths: Lengths of the sequences on the side to cut, queries or keys.
        other_lengths: Their lengths on the other side.
        size: Tokens of a tile; the last one of a sequence may have fewer.
        other_size: Tokens of a tile on the other side.
        device: Device of the table.

    Returns:
        `(tiles, 6)` int32: the start of the sequence, the tile's first token counted from there and
        the length of the sequence; on the other side, the start of the sequence, its length and the
        number of its first tile.
    """
    return _sequence_tiles(
        tuple(lengths), tuple(other_lengths), size, other_size, device, stream_id(device)
    )


@cached_for_graphs(64)
def _sequence_tiles(
    lengths: tuple[int, ...],
    other_lengths: tuple[int, ...],
    size: int,
    other_size: int,
    device: torch.device,
    stream: int,
) -> Tensor:
    counts, other_counts = torch.tensor((lengths, other_lengths), dtype=torch.int64)
    num_tiles, num_other_tiles = -(-counts // size), -(-other_counts // other_size)
    sequence = torch.arange(len(counts)).repeat_interleave(num_tiles)
    first = (torch.arange(len(sequence)) - _starts(num_tiles)[sequence]) * size
    columns = _starts(counts)[sequence], first, counts[sequence]
    other_columns = (
        x[sequence] for x in (_starts(other_counts), other_counts, _starts(num_other_tiles))
    )
    return send(torch.stack([*columns, *other_columns], 1).int(), device)


def _starts(counts: Tensor) -> Tensor:
    """Compute the sum of the counts before each."""
    return counts.cumsum(0) - counts


@triton.jit
def load_sequence_tile(tiles, tile):
    """Load an entry of `sequence_tiles`, its two starts as int64."""
    entry = tiles + 6 * tile
    start, other_start = tl.load(entry).to(tl.int64), tl.load(entry + 3).to(tl.int64)
    first, length = tl.load(entry + 1), tl.load(entry + 2)
    return start, first, length, other_start, tl.load(entry + 4), tl.load(entry + 5)
