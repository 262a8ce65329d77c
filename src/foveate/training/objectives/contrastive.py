"""Contrastive learning: documents are embedded close to their positives and far from others.

The losses take columns of embeddings, `(n, dim)` each: anchors, positives and, for triplets,
negatives, as `compute_loss_from_embeddings` of sentence-transformers' losses does.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
import transformers
from torch import Tensor

from foveate.data.example import Example
from foveate.preprocessing import DocumentProcessor, Features

from .base import Objective


def triplet_loss(columns: list[Tensor], margin: float = 1.0) -> Tensor:
    """Compute SciNCL's loss, max(|a - p| - |a - n| + margin, 0), with Euclidean distances.

    Returns:
        The loss of each anchor, `(n,)`.

    Raises:
        ValueError: There are no negatives.
    """
    if len(columns) != 3:
        raise ValueError("the triplet loss needs a negative for every anchor: add negatives")
    anchor, positive, negative = columns
    return F.triplet_margin_loss(anchor, positive, negative, margin=margin, reduction="none")


def in_batch_loss(columns: list[Tensor], scale: float = 20.0) -> Tensor:
    """Compute the cross-entropy of each anchor's positive among all candidates of the batch.

    Scores are cosine similarities times `scale`; the loss is that of sentence-transformers'
    MultipleNegativesRankingLoss.

    Returns:
        The loss of each anchor, `(n,)`.
    """
    anchors, candidates = columns[0], torch.cat(columns[1:])
    scores = scale * F.normalize(anchors, dim=-1) @ F.normalize(candidates, dim=-1).T
    positives = torch.arange(len(anchors), device=anchors.device)
    return F.cross_entropy(scores, positives, reduction="none")


LOSSES: dict[str, Callable[[list[Tensor]], Tensor]] = {
    "triplet": triplet_loss,
    "in_batch": in_batch_loss,
}
"""The losses of `Contrastive`."""


@dataclass(frozen=True)
class Contrastive(Objective):
    """Embed documents, by their first token, close to their positives (HDT, 4.2: as SciNCL).

    Args:
        loss: "triplet", against one negative for each document, or "in_batch", against the batch.
    """

    auto_class = transformers.AutoModel

    loss: str = "triplet"

    def __post_init__(self) -> None:
        if self.loss not in LOSSES:
            raise ValueError(f"loss must be one of {', '.join(LOSSES)}, got {self.loss!r}")

    def features(
        self, processor: DocumentProcessor, example: Example, generator: torch.Generator
    ) -> list[Features]:
        """Tokenize anchor, positive and negative."""
        if not example.related:
            raise ValueError("the document has no positive to be close to: add one")
        if self.loss == "triplet" and len(example.related) < 2:
            raise ValueError("the triplet loss needs a negative for every anchor: add one")
        documents = (example.document, *example.related)
        num_columns = torch.tensor(len(documents))
        return [
            {**processor.document_features(document), "num_columns": num_columns}
            for document in documents
        ]

    def collate(self, processor: DocumentProcessor, features: Sequence[Features]) -> dict[str, Any]:
        """Pad anchors, then positives, then negatives; the labels number the anchors."""
        sizes = {int(example["num_columns"]) for example in features}
        if len(sizes) > 1:
            raise ValueError("some documents have a negative and others none: add one to all")
        [num_columns] = sizes
        columns = [features[column::num_columns] for column in range(num_columns)]
        batch = super().collate(processor, [example for column in columns for example in column])
        return {**batch, "labels": torch.arange(len(features) // num_columns)}

    def compute_loss(
        self, outputs: Any, labels: Tensor, num_items_in_batch: Tensor | int | None = None
    ) -> Tensor:
        """Average the loss over the anchors of a step."""
        columns = list(outputs.last_hidden_state[:, 0].float().split(len(labels)))
        total = LOSSES[self.loss](columns).sum()
        return total / (len(labels) if num_items_in_batch is None else num_items_in_batch)
