"""The objective of embeddings: documents near their positives and far from others."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import transformers
from torch import Tensor

from foveate.training.contrastive import Loss, in_batch, triplet
from foveate.training.reading import Reader
from foveate.training.rows import Row

from .base import Objective

LOSSES: dict[str, Loss] = {"triplet": triplet, "in_batch": in_batch}
"""Losses of `Contrast`."""


@dataclass(frozen=True)
class Contrast(Objective):
    """Bring documents near their positives, by their first rows (HDT, 4.2: as SciNCL).

    Args:
        loss: "triplet", against one negative each, or "in_batch", against the whole batch.
    """

    auto = transformers.AutoModel

    loss: str = "triplet"

    def __post_init__(self) -> None:
        if self.loss not in LOSSES:
            raise ValueError(f"loss must be one of {list(LOSSES)}, got {self.loss!r}")

    def rows(self, reader: Reader, example: Any, rng: torch.Generator) -> list[Row]:
        """Read anchor, positive and negative."""
        if not example.related:
            raise ValueError("a document has no positive to be near to: give it one")
        documents = (example.document, *example.related)
        number = torch.tensor(len(documents))
        return [{**reader.read(document, ""), "columns": number} for document in documents]

    def collate(self, reader: Reader, rows: Sequence[Row]) -> Row:
        """Anchors, then positives, then negatives; labels number the anchors."""
        numbers = {int(row["columns"]) for row in rows}
        if len(numbers) > 1:
            raise ValueError("some documents have a negative and others none: give it to all")
        [number] = numbers
        ordered = [row for column in range(number) for row in rows[column::number]]
        batch = super().collate(reader, ordered)
        return {**batch, "labels": torch.arange(len(rows) // number)}

    def measure(
        self, outputs: Any, labels: Tensor, num_items_in_batch: Tensor | int | None = None
    ) -> Tensor:
        """Mean loss over the anchors of a step."""
        columns = list(outputs.last_hidden_state[:, 0].float().split(len(labels)))
        total = LOSSES[self.loss](columns).sum()
        return total / (len(labels) if num_items_in_batch is None else num_items_in_batch)
