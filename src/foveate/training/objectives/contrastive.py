"""Contrastive learning: documents are embedded close to their positives and far from others."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
import transformers
from torch import Tensor

from foveate.data.example import Example
from foveate.preprocessing import DocumentProcessor, Features

from .base import Objective


@dataclass(frozen=True)
class Contrastive(Objective):
    """Embed documents, by their first token, close to their positives (HDT, 4.2: as SciNCL).

    The loss is max(|a - p| - |a - n| + 1, 0), with Euclidean distances of an anchor a to its
    positive p and its negative n.
    """

    auto_class = transformers.AutoModel

    def features(
        self, processor: DocumentProcessor, example: Example, generator: torch.Generator
    ) -> list[Features]:
        """Tokenize anchor, positive and negative."""
        if len(example.related) != 2:
            raise ValueError("the document needs a positive and a negative to be compared with")
        documents = (example.document, *example.related)
        return [processor.document_features(document) for document in documents]

    def collate(self, processor: DocumentProcessor, features: Sequence[Features]) -> dict[str, Any]:
        """Pad anchors, then positives, then negatives; the labels number the anchors."""
        batch = super().collate(
            processor, [example for column in range(3) for example in features[column::3]]
        )
        return {**batch, "labels": torch.arange(len(features) // 3)}

    def compute_loss(
        self, outputs: Any, labels: Tensor, num_items_in_batch: Tensor | int | None = None
    ) -> Tensor:
        """Average the loss over the anchors of a step."""
        anchor, positive, negative = outputs.last_hidden_state[:, 0].float().split(len(labels))
        total = F.triplet_margin_loss(anchor, positive, negative, reduction="sum")
        return total / (len(labels) if num_items_in_batch is None else num_items_in_batch)
