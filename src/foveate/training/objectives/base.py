"""What all objectives share."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor

from foveate.documents import Document
from foveate.training.reading import Reader
from foveate.training.rows import Row

INPUTS = ("input_ids", "attention_mask", "global_attention_mask", "vip_mask", "parent_ids")
"""Columns that models take."""


class Example(Protocol):
    """What is learned from: a `Sample` of a corpus, or what the readers of benchmarks give."""

    @property
    def document(self) -> Document:
        """What is to be read."""


@dataclass(frozen=True)
class Objective:
    """What all objectives share.

    Attributes:
        auto: the Auto class of the models that learn it.
        measure: what `Trainer` takes as `compute_loss_func`, None where the model has the loss.
    """

    auto: ClassVar[Any]
    measure: ClassVar[Callable[..., Tensor] | None] = None

    def rows(self, reader: Reader, example: Any, rng: torch.Generator) -> list[Row]:
        """Make rows of an example; `rng` decides what is left to chance."""
        raise NotImplementedError

    def collate(self, reader: Reader, rows: Sequence[Row]) -> Row:
        """Make a batch of rows."""
        return reader.pad([only(row, (*INPUTS, "labels")) for row in rows])

    def configuration(self) -> dict[str, Any]:
        """What the objective asks of the model's configuration."""
        return {}


def only(row: Row, columns: Sequence[str]) -> Row:
    """Leave out all columns but these."""
    return {name: column for name, column in row.items() if name in columns}
