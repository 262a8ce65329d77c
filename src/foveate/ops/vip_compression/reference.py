"""VIP compression as it is defined: S, which compresses one sequence (VCC, 3.2 and 6.2)."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor


class Component(NamedTuple):
    """The `place`-th segment of `resolution` tokens."""

    resolution: int
    place: int


def select(
    scores: dict[int, Tensor], length: int, budgets: Sequence[tuple[int, int]]
) -> list[Component]:
    """Choose components that cover each token once (VCC, Alg. 1), coarse to fine, in order.

    Args:
        scores: of all segments at each resolution but 1, `(segments,)`.
        length: of the sequence.
        budgets: (resolution, count) pairs.
    """
    current = list(range(-(-length // budgets[0][0])))
    finer = [resolution for resolution, _ in budgets[1:]] + [1]
    components: list[Component] = []
    for (resolution, count), next_resolution in zip(budgets, finer, strict=True):
        best = sorted(current, key=lambda x: -float(scores[resolution][x]))[:count]
        components += [Component(resolution, x) for x in current if x not in best]
        ratio = resolution // next_resolution
        parts = [x * ratio + i for x in sorted(best) for i in range(ratio)]
        current = [x for x in parts if x * next_resolution < length]
    return components + [Component(1, x) for x in current]


def compression_matrix(components: Sequence[Component], length: int) -> tuple[Tensor, Tensor]:
    """Return S `(components, length)`, which averages, and its pseudo-inverse, which repeats."""
    s = torch.zeros(len(components), length, dtype=torch.float64)
    for row, (resolution, place) in enumerate(components):
        tokens = slice(place * resolution, min((place + 1) * resolution, length))
        s[row, tokens] = 1 / (tokens.stop - tokens.start)
    return s, (s > 0).double().T


def compressed_layer(
    run: Callable[[Tensor, Tensor, Tensor], Tensor],
    vips: Tensor,
    tokens: Tensor,
    vip_positions: Tensor,
    positions: Tensor,
    components: Sequence[Component],
) -> tuple[Tensor, Tensor]:
    """Run a layer on [P; S·C] and decompress what it adds to C (VCC, eq. 8 and 54).

    Args:
        run: the layer, of rows `(r, d)`, their positions and multiplicities, both `(r,)`.
        vips: P `(n_p, d)`.
        tokens: C `(n_c, d)`.
        vip_positions: `(n_p,)` integers.
        positions: `(n_c,)` integers.
        components: what the rows of S are.

    Returns:
        The new P and C.
    """
    s, inverse = (x.to(tokens.dtype) for x in compression_matrix(components, len(tokens)))
    rows = torch.cat([vips, s @ tokens])
    means = (s.double() @ positions.double()).round().long()
    multiplicity = torch.cat([torch.ones(len(vips)), (s > 0).sum(1)])
    new = run(rows, torch.cat([vip_positions, means]), multiplicity)
    return new[: len(vips)], tokens + inverse @ (new - rows)[len(vips) :]
