"""Classification objectives: the classes of a document, or one of several answers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
import transformers

from foveate.data.example import Example
from foveate.preprocessing import DocumentProcessor, Features, VCCProcessor, pack_trees

from .base import Objective


@dataclass(frozen=True)
class Classification(Objective):
    """Predict the class, or the classes, of a document.

    Args:
        labels: Names of the classes.
        multi_label: Whether a document may belong to any number of classes.
    """

    auto_class: ClassVar[Any] = transformers.AutoModelForSequenceClassification

    labels: tuple[str, ...] = ()
    multi_label: bool = False

    def __post_init__(self) -> None:
        if len(set(self.labels)) < 2 or len(set(self.labels)) < len(self.labels):
            raise ValueError(
                f"labels must be at least two different names of classes, got {list(self.labels)}"
            )

    def features(
        self, processor: DocumentProcessor, example: Example, generator: torch.Generator
    ) -> list[Features]:
        """Tokenize the example, with its classes as `labels`."""
        self._check_labels(example.labels)
        if self.multi_label:
            labels = torch.tensor([float(name in example.labels) for name in self.labels])
        elif len(example.labels) != 1:
            raise ValueError(
                f"the example has the labels {list(example.labels)}: "
                "give it exactly one, or set multi_label"
            )
        else:
            labels = torch.tensor(self.labels.index(example.labels[0]))
        features = processor.features(
            example.document, query=example.query, choices=example.choices
        )
        return [{**features, "labels": labels}]

    def collate(self, processor: DocumentProcessor, features: Sequence[Features]) -> dict[str, Any]:
        """Pack trees into one sequence, or pad other features; stack the labels."""
        if "parent_ids" not in features[0]:
            return super().collate(processor, features)
        labels = torch.stack([example["labels"] for example in features])
        return {**pack_trees(features), "labels": labels}

    def _check_labels(self, labels: Sequence[str]) -> None:
        if unknown := set(labels) - set(self.labels):
            raise ValueError(
                f"class {min(unknown)!r} is not among the labels {list(self.labels)}: add it to "
                "them, or leave the example out"
            )

    def config_options(self) -> dict[str, Any]:
        """Return the names of the classes, and the kind of loss."""
        kind = "multi_label_classification" if self.multi_label else "single_label_classification"
        return {
            "id2label": dict(enumerate(self.labels)),
            "label2id": {name: number for number, name in enumerate(self.labels)},
            "problem_type": kind,
        }


@dataclass(frozen=True)
class MultipleChoice(Objective):
    """Choose the correct answer; the model reads the document once with each choice.

    VCC reads it once, with all choices as VIP tokens (VCC, section 4), in random order.
    """

    auto_class = transformers.AutoModelForMultipleChoice

    def features(
        self, processor: DocumentProcessor, example: Example, generator: torch.Generator
    ) -> list[Features]:
        """Tokenize the document and the query with the choices."""
        if not example.references or example.references[0] not in example.choices:
            raise ValueError("the example does not say which choice is correct: leave it out")
        choices = list(example.choices)
        if isinstance(processor, VCCProcessor):
            order = torch.randperm(len(choices), generator=generator)
            choices = [choices[i] for i in order.tolist()]
        targets = {
            "labels": torch.tensor(choices.index(example.references[0])),
            "num_choices": torch.tensor(len(choices)),
        }
        return [features | targets for features in choice_features(processor, example, choices)]

    def collate(self, processor: DocumentProcessor, features: Sequence[Features]) -> dict[str, Any]:
        """Pad to columns `(examples, choices, longest)`, with labels `(examples,)`.

        For VCC, columns are `(examples, longest)`.
        """
        batch = super().collate(processor, features)
        if isinstance(processor, VCCProcessor):
            return batch
        sizes = {int(choice["num_choices"]) for choice in features}
        if len(sizes) > 1:
            raise ValueError(
                f"the examples of a batch have {sorted(sizes)} choices: "
                "set `batch: {documents: 1}`"
            )
        [num_choices] = sizes
        labels = batch.pop("labels")
        columns = {
            name: column.view(-1, num_choices, *column.shape[1:]) for name, column in batch.items()
        }
        return {**columns, "labels": labels[::num_choices]}


def choice_features(
    processor: DocumentProcessor, example: Example, choices: Sequence[str]
) -> list[Features]:
    """Tokenize an example once for each choice; for VCC, once with all."""
    prompts = [choices] if isinstance(processor, VCCProcessor) else [(one,) for one in choices]
    return [
        processor.features(example.document, query=example.query, choices=prompt)
        for prompt in prompts
    ]
