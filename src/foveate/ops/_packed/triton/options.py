"""Tile sizes and Triton options of the attention kernels.

They are the fastest of those tried on an H200 with 16,384 tokens, or 4,096 in float32. What matters
is how many programs fit on a multiprocessor at once, by their registers and by their tiles in
shared memory: one computes weights while another multiplies. A card with less shared memory gets
fewer stages, then smaller tiles.
"""

import torch
from torch import Tensor

from foveate.ops._triton.card import H200, attention_bytes, card_of, shrink

Options = tuple[tuple[int, int], dict[str, int]]
"""Queries and keys of a tile, and Triton's options for the kernel."""


def options(queries: int, keys: int, num_warps: int, num_stages: int, **others: int) -> Options:
    """Pack the sizes of tiles and Triton's options."""
    return (queries, keys), {"num_warps": num_warps, "num_stages": num_stages, **others}


def forward_options(q: Tensor, narrow: Options) -> Options:
    """Return forward options; `narrow` for heads of up to 64 channels in half precision."""
    wide = options(128, 64, 8, 3)
    if q.dtype == torch.float32:
        narrow, wide = options(128, 32, 8, 2), options(32, 32, 4, 2)
    return fitted(q, *(wide if _is_wide(q) else narrow), num_own_tiles=1)


def queries_options(q: Tensor, narrow: Options) -> Options:
    """Return options of the backward kernel that finishes tiles of queries; `narrow` as above."""
    wide = options(64, 64, 4, 2)
    if q.dtype == torch.float32:
        narrow, wide = options(64, 32, 4, 2), options(32, 64, 8, 2)
    return fitted(q, *(wide if _is_wide(q) else narrow))


def keys_options(q: Tensor, narrow: Options) -> Options:
    """Return options of the backward kernel that finishes tiles of keys; `narrow` as above."""
    wide = options(32, 64, 4, 2)
    if q.dtype == torch.float32:
        narrow, wide = options(32, 64, 4, 2), options(64, 32, 8, 2)
    (queries, keys), others = wide if _is_wide(q) else narrow
    (keys, queries), others = fitted(q, (keys, queries), others)
    return (queries, keys), others


def fitted(
    x: Tensor, sizes: tuple[int, int], others: dict[str, int], num_own_tiles: int = 2
) -> Options:
    """Reduce the stages, then the tiles, until they fit into the card's shared memory.

    Args:
        x: Queries or keys.
        sizes: Rows of the tiles that a program finishes, and of those that it loops over.
        others: Triton's options.
        num_own_tiles: Tiles that a program keeps: of queries, or of keys and values.
    """
    limit = card_of(x.device).shared_memory
    if limit >= H200.shared_memory:
        return sizes, others
    stages = others["num_stages"]
    while stages > 1 and attention_bytes(x, *sizes, stages, num_own_tiles) > limit:
        stages -= 1

    def needed(own: int, other: int) -> int:
        return attention_bytes(x, own, other, stages, num_own_tiles)

    return shrink(sizes, needed, limit), others | {"num_stages": stages}


def _is_wide(q: Tensor) -> bool:
    return q.shape[-1] > 64
