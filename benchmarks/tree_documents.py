"""Documents of the shape that the benchmarks of tree attention use."""

import math

import torch
from torch import Tensor


def document_parents(nodes: int, seed: int) -> Tensor:
    """Parents `(nodes,)` of a document in reading order, anchors included.

    Sentence lengths are log-normal (mean 25 tokens, σ 0.5, clipped to 4-120); sections have 15 to
    45 sentences.
    """
    generator = torch.Generator().manual_seed(seed)
    mean = math.log(25) - 0.5**2 / 2
    parents = [-1]
    while len(parents) < nodes:
        section = len(parents)
        parents.append(0)
        count = int(torch.randint(15, 46, (1,), generator=generator))
        lengths = torch.exp(mean + 0.5 * torch.randn(count, generator=generator))
        for length in lengths.clamp(4, 120).round().int().tolist():
            sentence = len(parents)
            parents += [section] + [sentence] * length
    return torch.tensor(parents[:nodes])
