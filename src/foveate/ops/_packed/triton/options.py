"""Tile sizes and Triton options of the attention kernels.

They are the fastest of those tried on an H200 with 16,384 tokens, or 4,096 in float32. What matters
is how many programs fit on a multiprocessor at once, by their registers and by their tiles in
shared memory: one computes weights while another multiplies.
"""

import torch
from torch import Tensor

Options = tuple[tuple[int, int], dict[str, int]]
"""Queries and keys of a tile, and Triton's options for the kernel."""


def options(queries: int, keys: int, num_warps: int, num_stages: int, **others: int) -> Options:
    """Pack the sizes of tiles and Triton's options."""
    return (queries, keys), {"num_warps": num_warps, "num_stages": num_stages, **others}


def forward_options(q: Tensor, narrow: Options) -> Options:
    """Return forward options; `narrow` for heads of up to 64 channels in half precision."""
    if q.dtype == torch.float32:
        return options(32, 32, 4, 2) if _is_wide(q) else options(128, 32, 8, 2)
    return options(128, 64, 8, 3) if _is_wide(q) else narrow


def queries_options(q: Tensor, narrow: Options) -> Options:
    """Return options of the backward kernel that finishes tiles of queries; `narrow` as above."""
    if q.dtype == torch.float32:
        return options(32, 64, 8, 2) if _is_wide(q) else options(64, 32, 4, 2)
    return options(64, 64, 4, 2) if _is_wide(q) else narrow


def keys_options(q: Tensor, narrow: Options) -> Options:
    """Return options of the backward kernel that finishes tiles of keys; `narrow` as above."""
    if q.dtype == torch.float32:
        return options(64, 32, 8, 2) if _is_wide(q) else options(32, 64, 4, 2)
    return options(32, 64, 4, 2) if _is_wide(q) else narrow


def _is_wide(q: Tensor) -> bool:
    return q.shape[-1] > 64
