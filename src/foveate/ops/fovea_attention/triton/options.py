"""Options of the attention kernels.

As in relative attention, whose loops are similar, what matters is how many programs fit on a
multiprocessor at once, given their registers and their tiles in shared memory.
"""

from torch import Tensor

from foveate.ops._triton.math import padded_width


def queries_options(q: Tensor) -> dict[str, int]:
    """Triton's options for the kernels that finish tiles of queries, forward and backward."""
    return {**_options(8, 3), "maxnreg": 128} if row_bytes(q) <= 128 else _wide_options(q)


def keys_options(q: Tensor, queries: int) -> dict[str, int]:
    """Triton's options for the kernel that finishes tiles of keys, and its ROWS."""
    is_narrow = row_bytes(q) <= 128
    options = _options(4, 2) if is_narrow else _wide_options(q)
    return options | {"ROWS": min(queries, 64 if is_narrow else 32)}


def _wide_options(q: Tensor) -> dict[str, int]:
    return _options(8, 2 if row_bytes(q) <= 256 else 1)


def _options(num_warps: int, num_stages: int) -> dict[str, int]:
    return {"num_warps": num_warps, "num_stages": num_stages}


def row_bytes(q: Tensor) -> int:
    """Bytes of a row of a tile."""
    return padded_width(q.shape[-1]) * q.element_size()
