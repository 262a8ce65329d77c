"""Classification of the sections of a document, at their anchors."""

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


@dataclass(frozen=True)
class AnchorClassification(Classification):
    """Predict the class, or the classes, of each section (HDT, Table 7: ECtHR-ARG).

    Sections beyond `max_length` are ignored, and so, with a single class for each section, are
    those without one.

    Args:
        labels: Names of the classes.
        multi_label: Whether a section may belong to any number of classes, none included.
    """

    auto_class = transformers.AutoModelForTokenClassification

    def features(
        self, processor: DocumentProcessor, example: Example, generator: torch.Generator
    ) -> list[Features]:
        """Tokenize the example, with the classes of its sections as `labels` at their anchors."""
        labels, num_sections = example.section_labels, example.num_sections
        if not labels:
            raise ValueError("the example has no section_labels: add them")
        if len(labels) != num_sections:
            raise ValueError(
                f"the example has {len(labels)} section_labels for {num_sections} sections: "
                "give a list for each"
            )
        features = self.model_features(processor, example)
        anchors = self.anchor_nodes(processor, features, example)
        targets = torch.stack([self._target(own) for own in labels])
        shape = (len(features["input_ids"]), *targets.shape[1:])
        features["labels"] = torch.full(shape, IGNORE_INDEX, dtype=targets.dtype)
        features["labels"][anchors] = targets[: len(anchors)]
        if (features["labels"] == IGNORE_INDEX).all():
            raise ValueError("no section within max_length has a label: leave such examples out")
        return [features]

    def collate(self, processor: DocumentProcessor, features: Sequence[Features]) -> dict[str, Any]:
        """Pack the trees into one sequence."""
        return pack_trees(features, ("input_ids", "labels"))

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
        """Find the anchors of an example's sections.

        Returns:
            `(sections,)` int64, indices of nodes, in the order of the sections; fewer than there
            are if the last ones are truncated.
        """
        is_anchor = features["node_types"] == NODE_TYPES["section"]
        is_asked = bool(example.query or example.choices)
        first_is_query = is_asked and _tree_processor(processor).query_as == "section"
        return is_anchor.nonzero()[:, 0][int(first_is_query) :]

    def _target(self, labels: Sequence[str]) -> Tensor:
        """Number the classes of one section: `()` int64, or `(classes,)` floats 0 or 1."""
        self._check_labels(labels)
        if self.multi_label:
            return torch.tensor([float(name in labels) for name in self.labels])
        if len(labels) > 1:
            raise ValueError(
                f"a section has the labels {list(labels)}: give it one, or set multi_label"
            )
        return torch.tensor(self.labels.index(labels[0]) if labels else IGNORE_INDEX)


def _tree_processor(processor: DocumentProcessor) -> HDTProcessor:
    if not isinstance(processor, HDTProcessor):
        raise ValueError(
            f"{type(processor).__name__} has no anchors of sections to classify: "
            "choose a model that reads trees, such as HDT"
        )
    return processor
