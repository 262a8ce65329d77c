"""How the attention kernels are compiled for a head's width."""

from functools import cache

from foveate.ops._triton.math import padded_width

SIZES = ["n", "heads", "capacity"]
"""Arguments that change from batch to batch, for which nothing is compiled anew."""


@cache
def launch_options(head_dim: int, itemsize: int, registers: int) -> tuple[int, dict[str, int]]:
    """Width of the tiles, warps per program and, for narrow rows, a cap on a thread's registers.

    These programs wait for memory, not for arithmetic: what counts is how many of them fit on a
    multiprocessor at once. Rows of over 128 bytes would not fit in the registers under the cap.
    """
    width = padded_width(head_dim)
    if width * itemsize <= 128:
        return width, {"num_warps": 4, "num_stages": 1, "maxnreg": registers}
    return width, {"num_warps": 8 if itemsize == 4 else 4, "num_stages": 1}
