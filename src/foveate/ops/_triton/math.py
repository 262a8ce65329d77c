# Triton's dialect: kernels' arguments have no types, compile-time constants are capitals.
# mypy: disable-error-code=no-untyped-def
"""What the kernels of all ops share."""

import torch
import triton
import triton.language as tl
from torch import Tensor

LOG2E = tl.constexpr(1.4426950408889634)
_INTERPRETED = tl.constexpr(triton.knobs.runtime.interpret)
_PTX = tl.constexpr(torch.version.hip is None and not triton.knobs.runtime.interpret)


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


@triton.jit
def look_up(table, places):
    """Numbers of a float32 table at places, int32: each thread loads its own.

    A `tl.load` has neighbouring threads load neighbours, whatever layout the places are in, and
    what it loads goes through shared memory; in a loop it would be fetched ahead, too.
    """
    tl.static_assert(table.dtype.element_ty == tl.float32)
    if _PTX:
        found = tl.inline_asm_elementwise(
            "{ .reg .b64 place; mad.wide.s32 place, $2, 4, $1; ld.global.nc.f32 $0, [place]; }",
            "=f,l,r",
            [table.to(tl.int64, bitcast=True), places],
            dtype=tl.float32,
            is_pure=True,
            pack=1,
        )
    else:
        found = tl.load(table + places)
    return found
