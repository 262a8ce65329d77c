"""Extractive question answering: the answer is a span of the document."""

import re
from dataclasses import dataclass

import torch
import transformers

from foveate.data.example import Example
from foveate.preprocessing import DocumentProcessor, Features, TextProcessor, VCCProcessor
from foveate.preprocessing.text import plain_text

from .base import Objective


@dataclass(frozen=True)
class QuestionAnswering(Objective):
    """Find the first and the last token of the answer, or the first token if there is none."""

    auto_class = transformers.AutoModelForQuestionAnswering
    target_columns = ("start_positions", "end_positions")

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
