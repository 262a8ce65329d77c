# Triton's dialect: kernels' arguments have no types, compile-time constants are capitals.
# ruff: noqa: N803
# mypy: disable-error-code=no-untyped-def
"""What the forward and the backward kernel share: the rows of a tile, and who sees whom."""

import triton
import triton.language as tl

from foveate.ops._triton.math import LOG2E, dot

_NOBODY = tl.constexpr(-1000)


@triton.jit
def block(lists, turn, INNER: tl.constexpr):
    """Which tile comes in turn among the blocks, or among those with inner children."""
    return tl.load(lists + turn) if INNER else turn


@triton.jit
def large_tile(lists, turn, capacity, INNER: tl.constexpr):
    """Which tile comes in turn among those of large families, which stand at the end."""
    return tl.load(lists + capacity + turn) if INNER else capacity - 1 - turn


@triton.jit
def span(lists, tile, capacity):
    """First tile of a large tile's family, and the first one behind it."""
    place = lists + 2 * capacity + tile
    return tl.load(place), tl.load(place + capacity)


@triton.jit
def load_members(members, tile, SIZE: tl.constexpr):
    """Rows and roles of the members of a tile, `(SIZE,)` each; see `blocks.py`."""
    slot = members + tile * (2 * SIZE) + tl.arange(0, SIZE)
    role = tl.load(slot + SIZE).to(tl.int16)  # which takes fewer registers to keep
    return tl.load(slot), role.to(tl.int32)


@triton.jit
def member_pointers(x, row, head, row_stride, head_stride, WIDTH: tl.constexpr):
    """Pointers to one head of the given rows of x `(n, heads, head_dim)`: `(SIZE, WIDTH)`."""
    start = row.to(tl.int64) * row_stride + head * head_stride
    return x + start[:, None] + tl.arange(0, WIDTH)[None, :]


@triton.jit
def member_mask(keep, HEAD_DIM: tl.constexpr, WIDTH: tl.constexpr):
    """Mask `(SIZE, WIDTH)` of the real channels of the members to keep."""
    return keep[:, None] & (tl.arange(0, WIDTH) < HEAD_DIM)[None, :]


@triton.jit
def load_rows(x, row, head, row_stride, head_stride, HEAD_DIM: tl.constexpr, WIDTH: tl.constexpr):
    """One head of the given rows, zero in empty slots and padded channels: `(SIZE, WIDTH)`."""
    pointers = member_pointers(x, row, head, row_stride, head_stride, WIDTH)
    return tl.load(pointers, mask=member_mask(row >= 0, HEAD_DIM, WIDTH), other=0.0)


@triton.jit
def finished(row, role, INNER: tl.constexpr):
    """Whether this pass writes a member: first all but the inner children, then these."""
    return (row >= 0) & (((role & 3) == 2) == INNER)


@triton.jit
def query_code(role, CHILDREN: tl.constexpr):
    """Number of a member as a query; it sees the keys numbered the same or one higher."""
    parent = (role & 1) == 1
    return tl.where(parent, (role & -4) - 1 if CHILDREN else _NOBODY, role & -4)


@triton.jit
def key_code(role, PARENT: tl.constexpr):
    """Number of a member as a key: in family f, 4f is a child and 4f + 1 the parent."""
    parent = (role & 1) == 1
    return tl.where(parent, (role & -4) + 1 if PARENT else 2 * _NOBODY, role & -4)


@triton.jit
def sees(query, query_row, key, key_row, SIBLINGS: tl.constexpr):
    """Whether queries see keys, by codes and rows that broadcast against each other."""
    step = key - query  # 0 from child to child, 1 between child and parent
    seen = step.to(tl.uint32, bitcast=True) < 2
    if not SIBLINGS:
        seen = seen & ((step == 1) | (query_row == key_row))
    return seen


@triton.jit
def masked_scores(a, b, seen, scale):
    """Scores of rows of a against rows of b in base 2, -inf where unseen: float32."""
    return tl.where(seen, dot(a, b.T) * (scale * LOG2E), float("-inf"))
