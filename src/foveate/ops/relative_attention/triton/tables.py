"""What the kernels look up, made on the host once and kept on the device.

A table belongs to the stream it was sent on, so that nothing waits for it and nobody reads it
before it has arrived.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from foveate.ops._triton.cache import cached_for_graphs

from ..buckets import bucket_starts, buckets


def tiles(
    own: Sequence[int], other: Sequence[int], size: int, other_size: int, device: torch.device
) -> Tensor:
    """Cut packed sequences into tiles of `size` rows, none across two sequences.

    Args:
        own: lengths of the sequences on the side that is cut, queries or keys.
        other: their lengths on the other side.
        size: rows of a tile, fewer in the last one of a sequence.
        other_size: rows of a tile on the other side.
        device: where the table goes.

    Returns:
        `(tiles, 6)` int32: row where the sequence starts, the tile's first row counted from there,
        rows of the sequence; where it starts on the other side, its rows and first tile there.
    """
    return _tiles(tuple(own), tuple(other), size, other_size, device, _stream(device))


@cached_for_graphs(64)
def _tiles(
    own: tuple[int, ...],
    other: tuple[int, ...],
    size: int,
    other_size: int,
    device: torch.device,
    stream: int,
) -> Tensor:
    lengths, other_lengths = torch.tensor((own, other), dtype=torch.int64)
    number, other_number = -(-lengths // size), -(-other_lengths // other_size)
    sequence = torch.arange(len(own)).repeat_interleave(number)
    first = (torch.arange(len(sequence)) - _before(number)[sequence]) * size
    here = _before(lengths)[sequence], first, lengths[sequence]
    there = (x[sequence] for x in (_before(other_lengths), other_lengths, _before(other_number)))
    return _send(torch.stack([*here, *there], 1).int(), device)


def _before(x: Tensor) -> Tensor:
    """Sum of the entries before each."""
    return x.cumsum(0) - x


MARGIN = 256
"""Distances beyond reach that have an entry of their own, so that a near tile finds all of its
distances; at least the rows of a tile of queries and of a tile of keys together."""


class Distances(NamedTuple):
    """Buckets by distance: those from -reach to reach, farther ones are as these two."""

    reach: int
    bucket: Tensor
    """Bucket of each distance from -reach - MARGIN to reach + MARGIN, int64."""
    in_bucket: Tensor
    """Whether a bucket holds a distance from -reach to reach, `(num_buckets, 2·reach + 1)`; float64
    for sums that no setting takes precision of."""
    near: Tensor
    """Bucket of each distance from -reach to reach, int32."""
    edges: Tensor
    """Distances from -reach to reach where a bucket begins, ascending, float32."""
    order: Tensor
    """The buckets that begin there, int32."""
    ranks: Tensor
    """Number of the last edge up to each distance from -reach to reach, int32."""


def distances(
    num_buckets: int, max_distance: int, bidirectional: bool, device: torch.device
) -> Distances:
    """Look up buckets by distance on the device."""
    return _distances(num_buckets, max_distance, bidirectional, device, _stream(device))


@cached_for_graphs(64)
def _distances(
    num_buckets: int, max_distance: int, bidirectional: bool, device: torch.device, stream: int
) -> Distances:
    reach = bucket_starts(num_buckets, max_distance, bidirectional)[-1]
    distance = torch.arange(-reach - MARGIN, reach + MARGIN + 1)
    bucket = buckets(distance, num_buckets, max_distance, bidirectional=bidirectional)
    near = bucket[MARGIN:-MARGIN]
    in_bucket = (torch.arange(num_buckets)[:, None] == near).double()
    begins = torch.tensor([True, *(near[1:] != near[:-1]).tolist()])
    edges = begins.nonzero().flatten()
    ranks = begins.cumsum(0) - 1
    of_edges = (edges - reach).float(), near[edges].int(), ranks.int()
    tables = bucket, in_bucket, near.int(), *of_edges
    return Distances(reach, *(_send(x, device) for x in tables))


def _send(x: Tensor, device: torch.device) -> Tensor:
    """Copy x to the device without waiting for it."""
    return x.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else x


def _stream(device: torch.device) -> int:
    """Number of the stream that kernels are launched on."""
    return torch.cuda.current_stream(device).cuda_stream if device.type == "cuda" else 0
