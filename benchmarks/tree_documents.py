"""Random document trees for the benchmarks of tree attention."""

import math
import random


def document(tokens: int, rng: random.Random) -> list[int]:
    """Draw the parents of a document, depth first.

    Sections have 15-45 sentences. Sentence lengths are log-normal with mean 25 and σ 0.5, clipped
    to 4-120.
    """
    sigma, mean = 0.5, 25
    parents = [-1]
    while tokens > 0:
        section = len(parents)
        parents.append(0)
        for _ in range(rng.randint(15, 45)):
            length = round(rng.lognormvariate(math.log(mean) - sigma**2 / 2, sigma))
            length = min(max(length, 4), 120, tokens)
            if length > 0:
                sentence = len(parents)
                parents += [section] + [sentence] * length
                tokens -= length
    return parents
