"""How the attention kernels are compiled for a head's width."""

from torch import Tensor

from foveate.ops.kernels import padded_width


def launch_options(q: Tensor, registers: int) -> dict[str, int]:
    """Warps per program and, for rows of up to 128 bytes, a cap on the registers of a thread.

    These programs wait for memory, not for arithmetic: what counts is how many of them fit on a
    multiprocessor at once. Wider rows would not fit in the registers under the cap.
    """
    if padded_width(q.shape[-1]) * q.element_size() <= 128:
        return {"num_warps": 4, "num_stages": 1, "maxnreg": registers}
    return {"num_warps": 8 if q.element_size() == 4 else 4, "num_stages": 1}
