"""Summaries that a sequence-to-sequence checkpoint writes in words of its own."""

import warnings
from os import PathLike
from typing import Any, Self

import torch
from transformers import (
    AutoModelForSeq2SeqLM,
    AutoProcessor,
    BatchEncoding,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.tokenization_utils_base import VERY_LARGE_INTEGER

from foveate.detectors import Detector
from foveate.documents import Document
from foveate.models.accelerate import speed_up_if_possible
from foveate.models.device import device_named, dtype_named
from foveate.models.loading import load_config, load_model, load_tokenizer
from foveate.preprocessing.hdt import HDTProcessor
from foveate.preprocessing.led import check_room, cut, guided, has_global_tokens
from foveate.preprocessing.text import plain_text

_DEFAULT_WORDS = 150
_TOKENS_PER_WORD = 2
"""More than the vocabularies of summarizers need for a word, so that the last sentence ends."""


class Generator:
    """A sequence-to-sequence checkpoint that summarizes.

    Args:
        model: the Transformer, in evaluation mode.
        tokenizer: its tokenizer; for HDT its processor.
        detector: keywords to steer the summary by, for a model that has global tokens: they are
            prefixed to the text and are global, as `foveate.LEDProcessor` has it.
        k: number of keywords.

    Raises:
        ValueError: a detector, but a model without global tokens.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase | HDTProcessor,
        detector: Detector | None = None,
        k: int = 20,
    ) -> None:
        self.model: Any = model  # transformers declares `generate` on a mixin alone
        self.processor = tokenizer if isinstance(tokenizer, HDTProcessor) else None
        self.tokenizer: Any = self.processor.tokenizer if self.processor else tokenizer
        self.detector = detector
        self.k = k
        if detector is not None and not has_global_tokens(model):
            raise ValueError(
                f"a {model.config.model_type} model has no global tokens for keywords to be: "
                "use a model such as LED"
            )

    @classmethod
    def from_pretrained(
        cls,
        name_or_path: str | PathLike[str],
        *,
        device: str | torch.device | None = None,
        dtype: str | torch.dtype | None = None,
        detector: Detector | None = None,
        k: int = 20,
    ) -> Self:
        """Load a checkpoint, sped up if possible.

        Args:
            name_or_path: a folder, or a name on the hub, which then is downloaded.
            device: by default CUDA if there is one, else the CPU.
            dtype: float32, bfloat16 or float16, by default the checkpoint's own.
            detector: of keywords; see the class.
            k: number of keywords.

        Raises:
            OSError: there is no such checkpoint, or it has no safetensors weights.
            ValueError: it is not a sequence-to-sequence model, or has no global tokens; or another
                dtype.
        """
        config = load_config(name_or_path)
        path = str(name_or_path)
        if not config.is_encoder_decoder:
            raise ValueError(
                f"{path} is a {config.model_type} model, which does not write from what it reads: "
                "name a sequence-to-sequence model such as T5, BART, PEGASUS-X or LED"
            )
        own = "auto" if dtype is None else dtype_named(dtype)
        model = load_model(AutoModelForSeq2SeqLM, path, dtype=own)
        model = speed_up_if_possible(model).eval().to(device_named(device))
        reads_trees = config.model_type == "hdt"
        reader = AutoProcessor.from_pretrained(path) if reads_trees else load_tokenizer(path)
        return cls(model, reader, detector, k)

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
        text = _prefix(self.model, query) + plain_text(document)
        if self.processor is not None:
            inputs = self.processor(document, query=query)
        elif has_global_tokens(self.model):
            keywords = self.detector(document, self.k) if self.detector else []
            inputs = self._read_guided(text, [keyword.text for keyword in keywords])
        else:
            inputs = self._read(text)
        inputs = inputs.to(self.model.device)
        habits = self.model.generation_config
        if words is None and not (habits.max_length or habits.max_new_tokens):
            words = _DEFAULT_WORDS
        length = {}
        if words is not None:
            limit = self._longest_output
            tokens = _TOKENS_PER_WORD * words
            length["max_new_tokens"] = tokens if limit is None else min(tokens, limit)
        [output] = self.model.generate(**inputs, **length)
        text = str(self.tokenizer.decode(output, skip_special_tokens=True)).strip()
        return text if words is None else _first_sentences(text, words)

    @property
    def longest_input(self) -> int | None:
        """Tokens that the model takes; None where nothing limits them."""
        config = self.model.config
        if config.model_type in ("fovea", "vcc_t5"):  # whatever the tokenizer of its T5 says
            return None
        limits = [
            self.tokenizer.model_max_length,
            getattr(config, "max_encoder_position_embeddings", None),
            getattr(config, "max_position_embeddings", None),
        ]
        limit = min(limit for limit in limits if limit is not None)
        return None if limit >= VERY_LARGE_INTEGER else limit

    @property
    def _longest_output(self) -> int | None:
        """Tokens that the decoder has positions for, but for the one that it begins with."""
        config = self.model.config
        names = ("max_decoder_position_embeddings", "max_position_embeddings")
        limit = next((own for name in names if (own := getattr(config, name, None))), None)
        return None if limit is None else limit - 1

    def _read(self, text: str) -> BatchEncoding:
        # Some tokenizers would count the texts too, which few models take. verbose=False: the
        # warning below says more than the tokenizer's own.
        options = {"return_tensors": "pt", "return_token_type_ids": False, "verbose": False}
        tokens = self.tokenizer(text, **options)
        count, limit = tokens["input_ids"].shape[1], self.longest_input
        if limit is None or count <= limit:
            return tokens
        _warn_of_the_rest(count, limit)
        return self.tokenizer(text, truncation=True, max_length=limit, **options)

    def _read_guided(self, text: str, keywords: list[str]) -> BatchEncoding:
        row = guided(self.tokenizer, text, keywords)
        count, limit = len(row["input_ids"]), self.longest_input
        if limit is not None and count > limit:
            check_room(row, limit)
            _warn_of_the_rest(count, limit)
            row = cut(row, limit)
        return BatchEncoding({name: torch.tensor([own]) for name, own in row.items()})


def _warn_of_the_rest(count: int, limit: int) -> None:
    warnings.warn(
        f"the document has {count:,} tokens, of which the model reads the first {limit:,}: "
        "the rest is left out",
        stacklevel=4,
    )


def _prefix(model: PreTrainedModel, query: str | None) -> str:
    """What stands before the document: the words that T5 knows the task by, and the query."""
    tasks = getattr(model.config, "task_specific_params", None) or {}
    return tasks.get("summarization", {}).get("prefix", "") + (f"{query}\n" if query else "")


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
