"""Extractive question answering: the answer is a span of the document."""

import re
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
import transformers

from foveate.data.example import Example
from foveate.models.vcc import AutoModelForHotpotQA
from foveate.preprocessing import (
    IGNORE_INDEX,
    DocumentProcessor,
    Features,
    TextProcessor,
    VCCProcessor,
)
from foveate.preprocessing.text import plain_text

from .base import Objective


@dataclass(frozen=True)
class QuestionAnswering(Objective):
    """Find the first and the last token of the answer, or the first token if there is none."""

    auto_class: ClassVar[Any] = transformers.AutoModelForQuestionAnswering
    target_columns: ClassVar[tuple[str, ...]] = ("start_positions", "end_positions")

    def features(
        self, processor: DocumentProcessor, example: Example, generator: torch.Generator
    ) -> list[Features]:
        """Tokenize the example, and find the first of its references that the document contains."""
        features = processor.features(
            example.document, query=example.query, choices=example.choices
        )
        text = input_text(processor, example)
        document_start = len(text) - len(plain_text(example.document))
        starts, ends = features["offset_mapping"].T
        start_position = end_position = 0
        for reference in example.references:
            match = _whole_words(reference).search(text, document_start)
            if match is None:
                continue
            in_match = (ends > match.start()) & (starts < match.end())
            tokens = (in_match & (features["special_tokens_mask"] == 0)).nonzero()[:, 0]
            is_complete = len(tokens) and int(ends[tokens[-1]]) >= match.end()  # not truncated
            if is_complete:
                start_position, end_position = int(tokens[0]), int(tokens[-1])
                break
        features["start_positions"] = torch.tensor(start_position)
        features["end_positions"] = torch.tensor(end_position)
        return [features]


ANSWER_TYPES = ("no", "yes", "span")
"""What the class of an answer means, in the published order."""


@dataclass(frozen=True)
class HotpotQA(QuestionAnswering):
    """Say yes or no or find the answer, and find the sentences and paragraphs that support it.

    Each is a loss of its own in the published code of VCC. An example's `queries` name its
    supporting sentences; a paragraph is a section, and supports if one of its sentences does.
    """

    auto_class = AutoModelForHotpotQA
    target_columns = (
        *QuestionAnswering.target_columns,
        "answer_types",
        "sentence_labels",
        "paragraph_labels",
    )

    def features(
        self, processor: DocumentProcessor, example: Example, generator: torch.Generator
    ) -> list[Features]:
        """Tokenize the example; positions of answers that are not in the text are -100.

        `sentence_labels` and `paragraph_labels` `(tokens,)` are 0 or 1 at the first token of each
        sentence and each section, and -100 elsewhere.
        """
        [features] = super().features(processor, example, generator)
        kind = next((name for name in ANSWER_TYPES[:2] if name in example.references), "span")
        features["answer_types"] = torch.tensor(ANSWER_TYPES.index(kind))
        if kind != "span" or not features["end_positions"]:
            features["start_positions"] = features["end_positions"] = torch.tensor(IGNORE_INDEX)
        sections = [
            number
            for number, (_, section) in enumerate(example.document.walk())
            for paragraph in section.paragraphs
            for _ in paragraph.sentences
        ]
        support = [i for query in example.queries for i in query.sentence_ids]
        sentences = features["sentence_ids"]
        of_section = torch.tensor([*sections, -1])[sentences]  # the last is that of other tokens
        supporting = torch.tensor(support, dtype=torch.long)
        for name, ids, relevant in (
            ("sentence_labels", sentences, supporting),
            ("paragraph_labels", of_section, torch.tensor(sections)[supporting]),
        ):
            before = torch.cat([ids.new_tensor([-1]), ids.cummax(0).values[:-1]])
            is_labelled = (ids > before) & bool(example.queries)
            labels = torch.isin(ids, relevant).long()
            features[name] = labels.masked_fill(~is_labelled, IGNORE_INDEX)
        return [features]


def input_text(processor: DocumentProcessor, example: Example) -> str:
    """Return the text that the `offset_mapping` of an example's features refers to.

    Raises:
        ValueError: The processor does not map tokens to text.
    """
    if not isinstance(processor, TextProcessor | VCCProcessor) or not processor.tokenizer.is_fast:
        raise ValueError(
            f"{type(processor).__name__} does not map tokens to text, in which answers are found: "
            "choose a model that reads plain text, with a fast tokenizer"
        )
    return processor.text(example.document, example.query, example.choices)


def _whole_words(text: str) -> re.Pattern[str]:
    """Match a text, but not inside of words, such as "no" in "know"."""
    before = r"(?<!\w)" if re.match(r"\w", text) else ""
    after = r"(?!\w)" if re.search(r"\w\Z", text) else ""
    return re.compile(before + re.escape(text) + after)
