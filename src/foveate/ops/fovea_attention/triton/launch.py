"""How the attention kernels are launched: sizes of tiles, warps, tiles in flight."""

from torch import Tensor

from foveate.ops._triton.math import padded_width

# As in relative attention, whose loops are these: what decides is how many programs fit on a
# multiprocessor at once, by their registers and by their tiles in shared memory.


def forward_options(q: Tensor) -> dict[str, int]:
    """Warps of the forward kernel and its tiles in flight."""
    return _options(8, 3) | {"maxnreg": 128} if row_bytes(q) <= 128 else _wide_options(q)


def queries_options(q: Tensor) -> dict[str, int]:
    """Likewise of the backward kernel that owns queries."""
    return _options(8, 3) | {"maxnreg": 128} if row_bytes(q) <= 128 else _wide_options(q)


def keys_options(q: Tensor, queries: int) -> dict[str, int]:
    """Likewise of the backward kernel that owns keys; how many rows of queries it takes at once."""
    narrow = row_bytes(q) <= 128
    options = _options(4, 2) if narrow else _wide_options(q)
    return options | {"ROWS": min(queries, 64 if narrow else 32)}


def _wide_options(q: Tensor) -> dict[str, int]:
    return _options(8, 2 if row_bytes(q) <= 256 else 1)


def _options(warps: int, stages: int) -> dict[str, int]:
    return {"num_warps": warps, "num_stages": stages}


def row_bytes(q: Tensor) -> int:
    """Bytes of a row of a head in a tile."""
    return padded_width(q.shape[-1]) * q.element_size()
