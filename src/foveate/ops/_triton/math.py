# Triton's dialect: kernels' arguments have no types, compile-time constants are capitals.
# mypy: disable-error-code=no-untyped-def
"""Arithmetic and look-ups inside kernels, and the sizes of tiles and of padded tensors."""

import torch
import triton
import triton.language as tl
from torch import Tensor

LOG2E = tl.constexpr(1.4426950408889634)
_INTERPRETED = tl.constexpr(triton.knobs.runtime.interpret)
_PTX = tl.constexpr(torch.version.hip is None and not triton.knobs.runtime.interpret)


def next_power_of_2(n: int) -> int:
    """Round a positive integer up to a power of two, ten times as fast as Triton's function."""
    return 1 << (n - 1).bit_length()


def cdiv(a: int, b: int) -> int:
    """Divide and round up, ten times as fast as Triton's function."""
    return -(-a // b)


SMALLEST_BUCKET = 256
"""Elements that the smallest bucket holds."""

_BUCKETS = 8
"""Buckets between a power of two and the next: at most an eighth of the elements is padding."""


def bucket_size(number: int) -> int:
    """Return the size to which a number of elements is padded, so that few graphs serve all.

    Example:
        >>> [bucket_size(n) for n in (3, 257, 4096, 4097)]
        [256, 288, 4096, 4608]
    """
    if number <= SMALLEST_BUCKET:
        return SMALLEST_BUCKET
    step = next_power_of_2(number) // (2 * _BUCKETS)
    return cdiv(number, step) * step


def adjacent(x: Tensor) -> Tensor:
    """Return x with its channels adjacent, as the kernels read them; other strides are free."""
    return x if x.stride(-1) == 1 else x.contiguous()


@triton.jit
def dot(a, b, acc=None):
    """Add a matrix product in float32 to `acc`; float32 operands keep float32's precision."""
    if _INTERPRETED:  # the interpreter's products read bfloat16 as integers
        a, b = a.to(tl.float32), b.to(tl.float32)
    return tl.dot(a, b, acc, input_precision="tf32x3")


@triton.jit
def look_up(table, index):
    """Load entries of a float32 table at int32 indices; each thread loads its own.

    With `tl.load`, neighbouring threads would load neighbouring entries whatever the layout of the
    indices, the entries would go through shared memory, and in a loop they would be prefetched.
    """
    tl.static_assert(table.dtype.element_ty == tl.float32)
    if _PTX:
        entries = tl.inline_asm_elementwise(
            "{ .reg .b64 place; mad.wide.s32 place, $2, 4, $1; ld.global.nc.f32 $0, [place]; }",
            "=f,l,r",
            [table.to(tl.int64, bitcast=True), index],
            dtype=tl.float32,
            is_pure=True,
            pack=1,
        )
    else:
        entries = tl.load(table + index)
    return entries
