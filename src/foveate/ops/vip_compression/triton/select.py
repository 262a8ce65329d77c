# Triton's dialect: kernels' arguments have no types, compile-time constants are capitals.
# ruff: noqa: N803
# mypy: disable-error-code=no-untyped-def
"""What is seen once segments are chosen: which, in order, and the positions and biases of rows."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from foveate.ops._triton.launch import launch

ROWS, CHOSEN, OTHERS = 128, 16, 64


def select(
    best: Tensor,
    numbers: Tensor | None,
    positions: Tensor,
    key_bias: Tensor,
    part_positions: Tensor,
    part_bias: Tensor,
    candidates: int,
    ratio: int,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Sort what is chosen and put its parts behind the rows above; see `..torch.select`."""
    above, count = len(positions), len(best)
    chosen, segments = torch.empty_like(best), torch.empty_like(best)
    new_positions = positions.new_empty(above + count * ratio)
    bias = torch.empty(len(new_positions), dtype=torch.float32, device=best.device)
    if len(bias):
        launch(
            *(_select, triton.cdiv(above, ROWS) + triton.cdiv(count, CHOSEN)),
            (
                *(best, numbers, positions, key_bias, part_positions, part_bias),
                *(chosen, segments, new_positions, bias),
            ),
            *((), (above, above - candidates, count, ratio), (ROWS, CHOSEN, OTHERS)),
        )
    return chosen, segments, new_positions, bias


@triton.jit(do_not_specialize=("above", "first", "count", "ratio"))
def _select(
    best,
    numbers,
    positions,
    key_bias,
    part_positions,
    part_bias,
    chosen,
    segments,
    new_positions,
    bias,
    above,
    first,
    count,
    ratio,
    ROWS: tl.constexpr,
    CHOSEN: tl.constexpr,
    OTHERS: tl.constexpr,
):
    program = tl.program_id(0)
    programs_above = tl.cdiv(above, ROWS)
    if program < programs_above:
        row = program * ROWS + tl.arange(0, ROWS)
        _see_above(best, positions, key_bias, new_positions, bias, row, above, first, count, OTHERS)
    else:
        index = (program - programs_above) * CHOSEN + tl.arange(0, CHOSEN)
        own = tl.load(best + index, mask=index < count, other=0)
        segment = own
        if numbers is not None:
            segment = tl.load(numbers + own, mask=index < count, other=0)
        rank = _rank(best, own, count, OTHERS)
        tl.store(chosen + rank, own, mask=index < count)
        tl.store(segments + rank, segment, mask=index < count)
        for j in range(ratio):
            part, target = segment * ratio + j, above + rank * ratio + j
            place = tl.load(part_positions + part, mask=index < count)
            tl.store(new_positions + target, place, mask=index < count)
            of_part = tl.load(part_bias + part, mask=index < count).to(tl.float32)
            tl.store(bias + target, of_part, mask=index < count)


@triton.jit
def _see_above(
    best,
    positions,
    key_bias,
    new_positions,
    bias,
    row,
    above,
    first,
    count,
    OTHERS: tl.constexpr,
):
    """Copy what is known of rows above, and hide those that are split."""
    split = tl.zeros(row.shape, tl.int32)
    for start in range(0, count, OTHERS):
        other = start + tl.arange(0, OTHERS)
        some = tl.load(best + other, mask=other < count, other=0) + first
        same = (row[:, None] == some[None, :]) & (other < count)[None, :]
        split += tl.sum(same.to(tl.int32), 1)
    seen = tl.load(key_bias + row, mask=row < above).to(tl.float32)
    tl.store(bias + row, tl.where(split > 0, float("-inf"), seen), mask=row < above)
    tl.store(new_positions + row, tl.load(positions + row, mask=row < above), mask=row < above)


@triton.jit
def _rank(best, own, count, OTHERS: tl.constexpr):
    """How many of what is chosen stand before each of some."""
    rank = tl.zeros(own.shape, tl.int32)
    for start in range(0, count, OTHERS):
        other = start + tl.arange(0, OTHERS)
        some = tl.load(best + other, mask=other < count, other=0)
        before = (some[None, :] < own[:, None]) & (other < count)[None, :]
        rank += tl.sum(before.to(tl.int32), 1)
    return rank
