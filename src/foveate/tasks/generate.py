"""Summaries that a sequence-to-sequence checkpoint writes in words of its own."""

import warnings
from collections.abc import Iterator
from os import PathLike
from typing import Any, Self

import torch
from transformers import (
    AutoConfig,
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
    BatchEncoding,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.tokenization_utils_base import VERY_LARGE_INTEGER

from foveate.documents import Document
from foveate.models.device import device_named

_DEFAULT_WORDS = 150
_TOKENS_PER_WORD = 2
"""More than the vocabularies of summarizers need for a word, so that the last sentence ends."""


class Generator:
    """A sequence-to-sequence checkpoint that summarizes.

    Args:
        model: the Transformer, in evaluation mode.
        tokenizer: its tokenizer.
    """

    def __init__(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
        self.model: Any = model  # transformers declares `generate` on a mixin alone
        self.tokenizer = tokenizer

    @classmethod
    def from_pretrained(
        cls, name_or_path: str | PathLike[str], *, device: str | torch.device | None = None
    ) -> Self:
        """Load a checkpoint.

        Args:
            name_or_path: a folder, or a name on the hub, which then is downloaded.
            device: by default CUDA if there is one, else the CPU.

        Raises:
            OSError: there is no such checkpoint, or it has no safetensors weights.
            ValueError: it is not a sequence-to-sequence model.
        """
        path = str(name_or_path)
        config = AutoConfig.from_pretrained(path)
        if not config.is_encoder_decoder:
            raise ValueError(
                f"{path} is a {config.model_type} model, which does not write from what it reads: "
                "name a sequence-to-sequence model such as T5, BART, PEGASUS-X or LED"
            )
        model = AutoModelForSeq2SeqLM.from_pretrained(path, use_safetensors=True)
        return cls(model.eval().to(device_named(device)), AutoTokenizer.from_pretrained(path))

    @torch.inference_mode()
    def summarize(
        self, document: Document, *, words: int | None = None, query: str | None = None
    ) -> str:
        """Write a summary.

        What exceeds the longest input that the model takes is left out, with a warning.

        Args:
            document: what to summarize.
            words: budget; the summary ends with the last sentence that fits, or else is one
                sentence. By default what the checkpoint was made to write, or 150.
            query: text for the model to read first.
        """
        inputs = self._read(_prefix(self.model, query) + _text(document)).to(self.model.device)
        habits = self.model.generation_config
        if words is None and not (habits.max_length or habits.max_new_tokens):
            words = _DEFAULT_WORDS
        length = {} if words is None else {"max_new_tokens": _TOKENS_PER_WORD * words}
        [output] = self.model.generate(**inputs, **length)
        text = str(self.tokenizer.decode(output, skip_special_tokens=True)).strip()
        return text if words is None else _first_sentences(text, words)

    @property
    def longest_input(self) -> int | None:
        """Tokens that the model takes; None where nothing limits them."""
        config = self.model.config
        limits = [
            self.tokenizer.model_max_length,
            getattr(config, "max_encoder_position_embeddings", None),
            getattr(config, "max_position_embeddings", None),
        ]
        limit = min(limit for limit in limits if limit is not None)
        return None if limit >= VERY_LARGE_INTEGER else limit

    def _read(self, text: str) -> BatchEncoding:
        # verbose=False: the warning below says more than the tokenizer's own.
        tokens = self.tokenizer(text, return_tensors="pt", verbose=False)
        count, limit = tokens["input_ids"].shape[1], self.longest_input
        if limit is None or count <= limit:
            return tokens
        warnings.warn(
            f"the document has {count:,} tokens, of which the model reads the first {limit:,}: "
            "the rest is left out",
            stacklevel=3,
        )
        return self.tokenizer(text, return_tensors="pt", truncation=True, max_length=limit)


def _prefix(model: PreTrainedModel, query: str | None) -> str:
    """What stands before the document: the words that T5 knows the task by, and the query."""
    tasks = getattr(model.config, "task_specific_params", None) or {}
    return tasks.get("summarization", {}).get("prefix", "") + (f"{query}\n" if query else "")


def _text(document: Document) -> str:
    """Titles and paragraphs, one a line."""
    return "\n".join(line for line in (document.title, *_lines(document)) if line)


def _lines(document: Document) -> Iterator[str]:
    for _, section in document.walk():
        yield section.title
        for paragraph in section.paragraphs:
            yield " ".join(sentence.text for sentence in paragraph.sentences)


def _first_sentences(text: str, words: int) -> str:
    """As many whole sentences as the budget allows, at least one."""
    if not text:
        return text
    kept: list[str] = []
    for sentence in Document.from_text(text).sentences():
        words -= len(sentence.text.split())
        if kept and words < 0:
            break
        kept.append(sentence.text)
    return " ".join(kept)
