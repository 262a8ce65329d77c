"""Objectives that choose: a class, one of several answers, or a span of the text."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import transformers

from foveate.training.reading import Reader, question_and_text
from foveate.training.rows import Row

from .base import INPUTS, Objective, only


@dataclass(frozen=True)
class Classification(Objective):
    """Say which class a document belongs to, or which classes.

    Args:
        labels: names of the classes.
        several: whether a document may belong to any number of them.
    """

    auto = transformers.AutoModelForSequenceClassification

    labels: tuple[str, ...] = ()
    several: bool = False

    def __post_init__(self) -> None:
        if len(set(self.labels)) < 2 or len(set(self.labels)) < len(self.labels):
            raise ValueError(
                f"labels must be two or more different names of classes, got {list(self.labels)}"
            )

    def rows(self, reader: Reader, example: Any, rng: torch.Generator) -> list[Row]:
        """Read the example, and number its classes."""
        if unknown := set(example.labels) - set(self.labels):
            raise ValueError(f"class {min(unknown)!r} is not among the labels {list(self.labels)}")
        if self.several:
            labels = torch.tensor([float(name in example.labels) for name in self.labels])
        elif len(example.labels) != 1:
            raise ValueError(
                f"an example has the labels {list(example.labels)}: "
                "let it have one, or allow several"
            )
        else:
            labels = torch.tensor(self.labels.index(example.labels[0]))
        return [{**reader.read(example.document, example.question), "labels": labels}]

    def configuration(self) -> dict[str, Any]:
        """Names of the classes, and the loss."""
        kind = "multi_label_classification" if self.several else "single_label_classification"
        return {
            "id2label": dict(enumerate(self.labels)),
            "label2id": {name: number for number, name in enumerate(self.labels)},
            "problem_type": kind,
        }


@dataclass(frozen=True)
class MultipleChoice(Objective):
    """Say which of several answers is right; each is read with question and document."""

    auto = transformers.AutoModelForMultipleChoice

    def rows(self, reader: Reader, example: Any, rng: torch.Generator) -> list[Row]:
        """Read the document once for each choice."""
        if not example.references or example.references[0] not in example.choices:
            raise ValueError("an example does not say which choice is right: leave such ones out")
        right = torch.tensor(example.choices.index(example.references[0]))
        read = [
            reader.read(example.document, f"{example.question} {choice}".strip())
            for choice in example.choices
        ]
        number = torch.tensor(len(read))
        return [{**row, "labels": right, "choices": number} for row in read]

    def collate(self, reader: Reader, rows: Sequence[Row]) -> Row:
        """Columns `(examples, choices, longest)`."""
        numbers = {int(row["choices"]) for row in rows}
        if len(numbers) > 1:
            raise ValueError(
                f"examples of one batch have {sorted(numbers)} choices: let a batch be one document"
            )
        batch = super().collate(reader, rows)
        labels = batch.pop("labels")
        [number] = numbers
        columns = {name: column.unflatten(0, (-1, number)) for name, column in batch.items()}
        return {**columns, "labels": labels[::number]}


@dataclass(frozen=True)
class Span(Objective):
    """Find the answer in the text: its first and last token, or the first token where it is not."""

    auto = transformers.AutoModelForQuestionAnswering

    def rows(self, reader: Reader, example: Any, rng: torch.Generator) -> list[Row]:
        """Read the example, and find the first of its references that are words of the document."""
        row = reader.read(example.document, example.question)
        if "offsets" not in row:
            raise ValueError("spans are found in plain text, with a fast tokenizer: read as text")
        offsets = row["offsets"]
        text = question_and_text(example.document, example.question)
        start = end = 0
        for reference in example.references:
            match = _words(reference).search(text, len(example.question))
            if match is None:
                continue
            inside = (offsets[:, 1] > match.start()) & (offsets[:, 0] < match.end())
            found = (inside & (row["special_tokens_mask"] == 0)).nonzero()[:, 0]
            if len(found) and int(offsets[found[-1], 1]) >= match.end():
                start, end = int(found[0]), int(found[-1])
                break
        return [{**row, "start_positions": torch.tensor(start), "end_positions": torch.tensor(end)}]

    def collate(self, reader: Reader, rows: Sequence[Row]) -> Row:
        """Pad."""
        columns = (*INPUTS, "start_positions", "end_positions")
        return reader.pad([only(row, columns) for row in rows])


def _words(text: str) -> re.Pattern[str]:
    """The text where it is not a part of other words, as "no" is of "know"."""
    before = r"(?<!\w)" if re.match(r"\w", text) else ""
    behind = r"(?!\w)" if re.search(r"\w\Z", text) else ""
    return re.compile(before + re.escape(text) + behind)
