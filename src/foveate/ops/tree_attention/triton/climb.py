# Triton's dialect: kernels' arguments have no types, compile-time constants are capitals.
# ruff: noqa: N803
# mypy: disable-error-code=no-untyped-def
"""Levels of a forest's nodes, and whether it is one, in a single launch."""

import torch
import triton
import triton.language as tl
from torch import Tensor

_STEPS = 64
"""Levels climbed before giving up; deeper forests are for pointer doubling."""


def climb(parents: Tensor) -> tuple[Tensor, bool, bool]:
    """Climb from every node to its root. Waits for the device once.

    Returns:
        The levels `(n,)` int64; whether they are right, as they are not where a parent is no node
        or a root is not reached; whether the rows already are in level order.
    """
    n = len(parents)
    level = torch.empty_like(parents)
    faults = torch.zeros(2, dtype=torch.int32, device=parents.device)
    _climb[(triton.cdiv(n, 256),)](parents, level, faults, n, _STEPS, 256)
    wrong, unsorted = faults.tolist()
    return level, not wrong, not unsorted


@triton.jit
def _climb(parents, level, faults, n, STEPS: tl.constexpr, SIZE: tl.constexpr):
    node = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    real = node < n
    up = tl.load(parents + node, mask=real, other=-1)
    before = tl.load(parents + node - 1, mask=real & (node > 0), other=-1)
    unsorted = real & ((up < before) | (up >= node))

    wrong = (up < -1) | (up >= n)
    depth = tl.zeros([SIZE], tl.int64)
    steps = 0
    while (steps < STEPS) & (tl.max((up >= 0).to(tl.int32), 0) > 0):
        wrong = wrong | (up >= n)
        up = tl.where(up < n, up, -1)
        depth += (up >= 0).to(tl.int64)
        up = tl.load(parents + up, mask=up >= 0, other=-1)
        steps += 1
    wrong = wrong | (up >= 0)
    tl.store(level + node, depth, mask=real)
    tl.atomic_max(faults, tl.max(wrong.to(tl.int32), 0))
    tl.atomic_max(faults + 1, tl.max(unsorted.to(tl.int32), 0))
