# Triton's dialect: kernels' arguments have no types, compile-time constants are capitals.
# mypy: disable-error-code=no-untyped-def
"""What the kernels of all ops share."""

import triton
import triton.language as tl
from torch import Tensor

LOG2E = tl.constexpr(1.4426950408889634)
_INTERPRETED = tl.constexpr(triton.knobs.runtime.interpret)


def padded_width(head_dim: int) -> int:
    """Channels of a tile: the matrix units take powers of two from 16 up."""
    return max(16, 1 << (head_dim - 1).bit_length())


def adjacent(x: Tensor) -> Tensor:
    """Return x with its channels adjacent, as the kernels read them; other strides may be any."""
    return x if x.stride(-1) == 1 else x.contiguous()


@triton.jit
def dot(a, b, acc=None):
    """Matrix product in float32, added to `acc`; float32 operands keep float32's precision."""
    if _INTERPRETED:  # whose products read bfloat16 as integers
        a, b = a.to(tl.float32), b.to(tl.float32)
    return tl.dot(a, b, acc, input_precision="tf32x3")
