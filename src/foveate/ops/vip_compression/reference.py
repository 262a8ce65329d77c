"""VIP compression by its definition: a matrix S compresses one sequence (VCC, 3.2 and 6.2)."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor


class Component(NamedTuple):
    """One segment of a sequence.

    Attributes:
        resolution: Its number of tokens.
        segment: Its index among the segments of that resolution.
    """

    resolution: int
    segment: int


def select(
    scores: dict[int, Tensor], length: int, budgets: Sequence[tuple[int, int]]
) -> list[Component]:
    """Choose components that cover each token once (VCC, Alg. 1), from coarse to fine, in order.

    Args:
        scores: For each resolution but 1, the scores of all segments, `(segments,)`.
        length: Length of the sequence.
        budgets: Pairs (resolution, count).
    """
    current = list(range(-(-length // budgets[0][0])))
    finer_resolutions = [resolution for resolution, _ in budgets[1:]] + [1]
    components: list[Component] = []
    for (resolution, count), finer in zip(budgets, finer_resolutions, strict=True):
        best = sorted(current, key=lambda x: -scores[resolution][x].item())[:count]
        components += [Component(resolution, x) for x in current if x not in best]
        ratio = resolution // finer
        parts = [x * ratio + i for x in sorted(best) for i in range(ratio)]
        current = [x for x in parts if x * finer < length]
    return components + [Component(1, x) for x in current]


def compression_matrix(components: Sequence[Component], length: int) -> tuple[Tensor, Tensor]:
    """Return S `(components, length)`, which averages, and its pseudo-inverse, which repeats."""
    s = torch.zeros(len(components), length, dtype=torch.float64)
    for row, (resolution, segment) in enumerate(components):
        tokens = slice(segment * resolution, min((segment + 1) * resolution, length))
        s[row, tokens] = 1 / (tokens.stop - tokens.start)
    return s, (s > 0).double().T


def token_scores(
    components: Sequence[Component],
    shares: dict[int, Tensor],
    stopped: dict[int, Tensor],
    budgets: Sequence[tuple[int, int]],
) -> Tensor:
    """Return scores of value 1 `(components,)`, by which attention learns what to select.

    The paper does not define them: they are those of the published code, without the 1e-5 and 1e-4
    that it adds to numbers before it takes their logarithm, and for any number of resolutions.

    Args:
        components: What `select` chose.
        shares: For each resolution but 1, the scores of all segments; those that were candidates
            sum to 1.
        stopped: The same numbers, as constants.
        budgets: Pairs (resolution, count).
    """
    scores = []
    for component in components:
        score = torch.ones((), dtype=torch.float64)
        for resolution in [r for r, _ in budgets if r >= component.resolution]:
            segment = component.segment * component.resolution // resolution
            p, constant = shares[resolution][segment], stopped[resolution][segment]
            if resolution == component.resolution:  # it was not split
                p, constant = 1 - p, 1 - constant
            score = score * (1 + p - constant)
        scores.append(score)
    return torch.stack(scores) if scores else torch.ones(0, dtype=torch.float64)


def compressed_layer(
    layer: Callable[[Tensor, Tensor, Tensor], Tensor],
    vips: Tensor,
    tokens: Tensor,
    vip_positions: Tensor,
    positions: Tensor,
    components: Sequence[Component],
    scores: Tensor,
) -> tuple[Tensor, Tensor]:
    """Run a layer on [P; S·C] and decompress what it adds to C (VCC, eq. 8 and 54).

    Args:
        layer: The layer, a function of hidden states `(t, d)`, positions `(t,)` and multiplicities
            `(t,)`, which are multiplied by the scores.
        vips: P `(n_p, d)`.
        tokens: C `(n_c, d)`.
        vip_positions: `(n_p,)` integers.
        positions: `(n_c,)` integers.
        components: The components that the rows of S average.
        scores: Their scores, see `token_scores`.

    Returns:
        The new P and C.
    """
    s, inverse = (x.to(tokens.dtype) for x in compression_matrix(components, len(tokens)))
    compressed = torch.cat([vips, s @ tokens])
    covers = (s > 0).double()
    num_tokens = covers.sum(1)
    # Not S times the positions: rounded weights such as 1/6 would round halves either way.
    mean_positions = (covers @ positions.double() / num_tokens).round().long()
    multiplicity = torch.cat([torch.ones(len(vips)), num_tokens * scores])
    new = layer(compressed, torch.cat([vip_positions, mean_positions]), multiplicity)
    added = (new - compressed)[len(vips) :] * scores[:, None]
    return new[: len(vips)], tokens + inverse @ added
