"""Classification of the sections or sentences of a document, at their anchors."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import transformers
from torch import Tensor

from foveate.data.example import Example
from foveate.preprocessing import (
    IGNORE_INDEX,
    DocumentProcessor,
    Features,
    HDTProcessor,
    pack_trees,
)
from foveate.preprocessing.tree import NODE_TYPES

from .classification import Classification

ANCHORS = ("section", "sentence")
"""The anchors that `AnchorClassification` classifies."""


@dataclass(frozen=True)
class AnchorClassification(Classification):
    """Predict the class, or the classes, of each section or sentence (HDT, Table 7: ECtHR-ARG).

    Parts beyond `max_length` are ignored, and so, with a single class for each part, are those
    without one. A long sentence that is split counts at its first anchor.

    Args:
        labels: Names of the classes.
        multi_label: Whether a part may belong to any number of classes, none included.
        anchors: "section", with the examples' `section_labels`, or "sentence", with their
            `sentence_labels`.
    """

    auto_class = transformers.AutoModelForTokenClassification

    anchors: str = "section"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.anchors not in ANCHORS:
            raise ValueError(f"anchors must be one of {', '.join(ANCHORS)}, got {self.anchors!r}")

    def features(
        self, processor: DocumentProcessor, example: Example, generator: torch.Generator
    ) -> list[Features]:
        """Tokenize the example, with the classes of its parts as `labels` at their anchors."""
        part_labels = self.part_labels(example)
        if not part_labels:
            raise ValueError(f"the example has no {self.anchors}_labels: add them")
        num_parts = self.count_parts(example)
        if len(part_labels) != num_parts:
            raise ValueError(
                f"the example has {len(part_labels)} {self.anchors}_labels for {num_parts} "
                f"{self.anchors}s: give a list for each"
            )
        features = self.model_features(processor, example)
        anchors = self.anchor_nodes(processor, features, example)
        targets = torch.stack([self._target(own) for own in part_labels])
        shape = (len(features["input_ids"]), *targets.shape[1:])
        features["labels"] = torch.full(shape, IGNORE_INDEX, dtype=targets.dtype)
        features["labels"][anchors] = targets[: len(anchors)]
        if (features["labels"] == IGNORE_INDEX).all():
            raise ValueError(
                f"no {self.anchors} within max_length has a label: leave such examples out"
            )
        return [features]

    def collate(self, processor: DocumentProcessor, features: Sequence[Features]) -> dict[str, Any]:
        """Pack the trees into one sequence."""
        return pack_trees(features, ("input_ids", "labels"))

    def part_labels(self, example: Example) -> tuple[tuple[str, ...], ...]:
        """Return the classes of each section or sentence, empty if they are unknown."""
        return example.section_labels if self.anchors == "section" else example.sentence_labels

    def count_parts(self, example: Example) -> int:
        """Count the sections or sentences of an example's document."""
        document = example.document
        parts = document.walk() if self.anchors == "section" else document.sentences()
        return sum(1 for _ in parts)

    def model_features(self, processor: DocumentProcessor, example: Example) -> Features:
        """Tokenize an example.

        Raises:
            ValueError: The processor does not produce trees.
        """
        return _tree_processor(processor).features(
            example.document, query=example.query, choices=example.choices
        )

    def anchor_nodes(
        self, processor: DocumentProcessor, features: Features, example: Example
    ) -> Tensor:
        """Find the anchors of an example's sections or sentences.

        Returns:
            `(parts,)` int64, indices of nodes, in the order of the parts; fewer than there are
            parts if the last ones are truncated.
        """
        is_anchor = features["node_types"] == NODE_TYPES[self.anchors]
        if self.anchors == "sentence":  # titles have the index -1
            sentence_ids = features["sentence_ids"]
            is_first = sentence_ids > sentence_ids.cummax(0).values.roll(1)
            return (is_anchor & is_first).nonzero()[:, 0]
        is_asked = bool(example.query or example.choices)
        first_is_query = is_asked and _tree_processor(processor).query_as == "section"
        return is_anchor.nonzero()[:, 0][int(first_is_query) :]

    def _target(self, labels: Sequence[str]) -> Tensor:
        """Number the classes of one part: `()` int64, or `(classes,)` floats 0 or 1."""
        self._check_labels(labels)
        if self.multi_label:
            return torch.tensor([float(name in labels) for name in self.labels])
        if len(labels) > 1:
            raise ValueError(
                f"a {self.anchors} has the labels {list(labels)}: give it one, or set multi_label"
            )
        return torch.tensor(self.labels.index(labels[0]) if labels else IGNORE_INDEX)


def _tree_processor(processor: DocumentProcessor) -> HDTProcessor:
    if not isinstance(processor, HDTProcessor):
        raise ValueError(
            f"{type(processor).__name__} has no anchors of sections and sentences to classify: "
            "choose a model that reads trees, such as HDT"
        )
    return processor
