"""The best cut through a tree under a budget: a knapsack in which what is open needs its parent."""

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

MAX_CELLS = 50_000_000
"""Largest table, nodes × tokens of a byte, that is filled exactly."""

_STEPS = 40  # of bisection
_ROUNDING = 1e-9  # of sums, relative to the gain of everything


def best_cut(gains: Floats, costs: Ints, ends: Ints, budget: int) -> Mask:
    """Choose which nodes of a tree to open.

    The open nodes X maximize Σ_{i∈X} gains_i subject to Σ_{i∈X} costs_i ≤ budget, where a node is
    open only if its parent is. Two steps solve this exactly:

    1. For a price λ of a token, the best cut without a budget follows from

           r_i = gains_i - λ costs_i + Σ_{children j} max(r_j, 0)

       and max_X Σ (gains - λ costs) + λ budget bounds the optimum from above. λ is the lowest price
       found at which that cut fits; it bounds the optimum from below, with what else fits, those
       of the highest r first. A node is left closed if opening it, or opened if closing it, would
       lower the upper bound below the lower one.
    2. The others are chosen by dynamic programming. With f_i(b) the highest gain of the nodes from
       i on, in preorder, for b tokens,

           f_i(b) = max(gains_i + f_{i+1}(b - costs_i), f_{ends_i}(b))

    Should the table of f exceed `MAX_CELLS`, costs are rounded up in step 2 to multiples of
    u = ⌈nodes · tokens / MAX_CELLS⌉, and the gain is at least that of the best k of those nodes for
    (k + 1)(u - 1) tokens less, for any k.

    Args:
        gains: `(nodes,)`, at least 0, of the nodes in preorder; there may be several roots.
        costs: `(nodes,)`, at least 0.
        ends: `(nodes,)`, the index just past the last node below each.
        budget: The sum of costs that is allowed, at least 0.

    Returns:
        `(nodes,)`, which nodes are open.
    """
    if costs.sum() <= budget:
        return np.ones(len(costs), bool)
    is_open, is_undecided = _decide(gains, costs, ends, budget)
    idx = np.flatnonzero(is_undecided)
    ends = np.append(0, is_undecided.cumsum())[ends[idx]]
    is_open[idx] = _fill(gains[idx], costs[idx], ends, budget - int(costs[is_open].sum()))
    return is_open


def _decide(gains: Floats, costs: Ints, ends: Ints, budget: int) -> tuple[Mask, Mask]:
    """Return which nodes every optimum opens, and which some optimum may or may not open."""
    parents, levels = _levels(ends)

    def price(value: float) -> tuple[Floats, Mask]:
        """Compute r, and the best cut without a budget."""
        net = gains - value * costs
        for level in reversed(levels[1:]):
            net += np.bincount(parents[level], net[level].clip(min=0), len(net))
        is_open = net > 0
        for level in levels[1:]:
            is_open[level] &= is_open[parents[level]]
        return net, is_open

    low, high = 0.0, float(gains.sum()) + 1.0  # at which nothing that costs a token is opened
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if costs[price(middle)[1]].sum() <= budget:
            high = middle
        else:
            low = middle
    net, is_open = price(high)
    upper = net[levels[0]].clip(min=0).sum() + high * budget
    lower = gains[is_open].sum()
    room = budget - int(costs[is_open].sum())
    is_filled = is_open.copy()
    by_level = [level[~is_open[level] & (costs[level] <= room)] for level in levels]
    for node in np.concatenate([one[np.argsort(-net[one])] for one in by_level]).tolist():
        if costs[node] <= room and (parents[node] < 0 or is_filled[parents[node]]):
            is_filled[node] = True
            lower += gains[node]
            room -= int(costs[node])
    gap = upper - lower + _ROUNDING * gains.sum()
    to_open = (-net).clip(min=0)  # by how much this would lower the upper bound
    to_close = np.where(is_open, net, 0)  # or this; a node can also be closed with its parent
    for level in levels[1:]:
        to_open[level] += to_open[parents[level]]
        to_close[level] = np.minimum(to_close[level], to_close[parents[level]])
    is_needed = to_close > gap
    return is_needed, (to_open <= gap) & ~is_needed


def _levels(ends: Ints) -> tuple[Ints, list[Ints]]:
    """Return the parent of each node, -1 of roots, and the nodes of each depth."""
    parents, depths = [], []
    path: list[int] = []
    past = ends.tolist()
    for node in range(len(past)):
        while path and past[path[-1]] <= node:
            path.pop()
        parents.append(path[-1] if path else -1)
        depths.append(len(path))
        path.append(node)
    of_depth = np.array(depths)
    return np.array(parents), [np.flatnonzero(of_depth == i) for i in range(max(depths) + 1)]


def _fill(gains: Floats, costs: Ints, ends: Ints, budget: int) -> Mask:
    """Solve step 2 of `best_cut`."""
    unit = max(1, -(-len(costs) * budget // MAX_CELLS))
    budget, costs = budget // unit, -(-costs // unit)
    is_taken = np.zeros((len(costs), budget + 1), bool)
    following = np.zeros(budget + 1)  # f_{i+1}
    tables = {len(costs): following}  # f_j for the ends j that are still needed
    num_users = np.bincount(ends, minlength=len(costs) + 1)
    for i in range(len(costs) - 1, -1, -1):
        end, cost = int(ends[i]), int(costs[i])
        skipped = tables[end]
        num_users[end] -= 1
        if not num_users[end]:
            del tables[end]
        if cost <= budget:
            taken = following[: budget + 1 - cost] + gains[i]
            following = skipped.copy()
            np.greater(taken, skipped[cost:], out=is_taken[i, cost:])
            np.maximum(taken, skipped[cost:], out=following[cost:])
        else:
            following = skipped
        if num_users[i]:
            tables[i] = following
    is_open = np.zeros(len(costs), bool)
    i = 0
    while i < len(costs):
        if is_taken[i, budget]:
            is_open[i] = True
            budget -= int(costs[i])
            i += 1
        else:
            i = int(ends[i])
    return is_open
