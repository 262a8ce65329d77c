"""How the attention kernels are compiled."""

from torch import Tensor


def launch_options(q: Tensor) -> dict[str, int]:
    """Warps of a program, and tiles in flight as far as shared memory allows."""
    row = q.shape[-1] * q.element_size()
    if row <= 128:
        return {"num_warps": 4, "num_stages": 3}
    return {"num_warps": 8, "num_stages": 2 if row <= 256 else 1}
