"""Objectives of encoder-decoders, which generate text."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import transformers
from torch.nn.utils.rnn import pad_sequence

from foveate.data.example import Example
from foveate.preprocessing import IGNORE_INDEX, DocumentProcessor, Features, pack_trees

from .base import Objective


@dataclass(frozen=True)
class Seq2SeqObjective(Objective):
    """The base class of all objectives of encoder-decoders.

    Args:
        max_target_length: Longest target in tokens; longer ones are truncated. None for no limit.
    """

    auto_class = transformers.AutoModelForSeq2SeqLM

    max_target_length: int | None = None

    def __post_init__(self) -> None:
        if self.max_target_length is not None and self.max_target_length < 1:
            raise ValueError(
                f"max_target_length must be at least 1 or null, got {self.max_target_length}"
            )

    def collate(self, processor: DocumentProcessor, features: Sequence[Features]) -> dict[str, Any]:
        """Pack trees into one sequence, or pad other features; pad the labels."""
        if "parent_ids" not in features[0]:
            return super().collate(processor, features)
        labels = [example["labels"] for example in features]
        return {**pack_trees(features), "labels": pad_sequence(labels, True, IGNORE_INDEX)}


@dataclass(frozen=True)
class SequenceToSequence(Seq2SeqObjective):
    """Generate the first reference from the document and, if there are any, query and choices."""

    def features(
        self, processor: DocumentProcessor, example: Example, generator: torch.Generator
    ) -> list[Features]:
        """Tokenize the example, with its first reference as the target."""
        if not "".join(example.references[:1]).strip():
            raise ValueError("the example has no reference to generate: leave such examples out")
        return [
            processor.features(
                example.document,
                query=example.query,
                choices=example.choices,
                target=example.references[0],
                max_target_length=self.max_target_length,
            )
        ]
