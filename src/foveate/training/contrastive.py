"""Contrastive losses: a document is to be near its positive and far from others.

Embeddings come as a list of columns, `(n, d)` each: anchors, positives and, of triplets, negatives.
That is also what `compute_loss_from_embeddings` of sentence-transformers' losses takes.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

Loss = Callable[[list[Tensor]], Tensor]
"""From columns of embeddings to the loss of each anchor, `(n,)`."""


def triplet(columns: list[Tensor], margin: float = 1.0) -> Tensor:
    """SciNCL's: max(|a - p| - |a - n| + margin, 0), Euclidean distances.

    Raises:
        ValueError: there are no negatives.
    """
    if len(columns) != 3:
        raise ValueError("a triplet loss needs an anchor, a positive and a negative each")
    anchor, positive, negative = columns
    return F.triplet_margin_loss(anchor, positive, negative, margin=margin, reduction="none")


def in_batch(columns: list[Tensor], scale: float = 20.0) -> Tensor:
    """Cross-entropy of an anchor's positive among all positives and negatives of the batch.

    Scores are cosines times `scale`; the losses are those of sentence-transformers'
    MultipleNegativesRankingLoss.
    """
    anchors, candidates = columns[0], torch.cat(columns[1:])
    scores = scale * F.normalize(anchors, dim=-1) @ F.normalize(candidates, dim=-1).T
    right = torch.arange(len(anchors), device=anchors.device)
    return F.cross_entropy(scores, right, reduction="none")
