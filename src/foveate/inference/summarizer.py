"""Summaries that a sequence-to-sequence checkpoint writes in its own words."""

from os import PathLike
from typing import Any, Self

import torch
from transformers import AutoModelForSeq2SeqLM, PreTrainedModel

from foveate.detectors import Detector
from foveate.documents import Document
from foveate.models.accelerate import speed_up_if_possible
from foveate.models.loading import load_config, load_model
from foveate.models.utils import resolve_device, resolve_dtype
from foveate.preprocessing import DocumentProcessor, load_processor
from foveate.preprocessing.led import has_global_tokens

DEFAULT_WORDS = 150
"""Budget where neither the caller nor the checkpoint says."""

_TOKENS_PER_WORD = 2
"""More than the vocabularies of summarizers need for a word, so that the last sentence ends."""


class Summarizer:
    """A sequence-to-sequence checkpoint that summarizes.

    Args:
        model: The Transformer, in evaluation mode.
        processor: Its processor.
    """

    def __init__(self, model: PreTrainedModel, processor: DocumentProcessor) -> None:
        self.model: Any = model  # transformers declares `generate` on a mixin alone
        self.processor = processor

    @classmethod
    def from_pretrained(
        cls,
        name_or_path: str | PathLike[str],
        *,
        device: str | torch.device | None = None,
        dtype: str | torch.dtype | None = None,
        num_keywords: int | None = None,
        detector: str | Detector = "tfidf",
        language: str = "en",
    ) -> Self:
        """Load a checkpoint, with fast attention where there is one for it.

        Args:
            name_or_path: A folder, or a name on the hub, which is then downloaded.
            device: By default CUDA if available, else the CPU.
            dtype: float32, bfloat16 or float16, by default the checkpoint's own.
            num_keywords: Number of keywords that guide a model with global tokens, such as LED;
                see `foveate.preprocessing.LEDProcessor`. By default as saved with the checkpoint.
            detector: What finds them.
            language: ISO 639 code for detectors by name.

        Raises:
            OSError: There is no such checkpoint, or it has no safetensors weights.
            ValueError: It is not a sequence-to-sequence model, or has no global tokens for
                keywords; or another dtype.
        """
        config = load_config(name_or_path)
        if not config.is_encoder_decoder:
            raise ValueError(
                f"{name_or_path} is a {config.model_type} model, which does not write from what it "
                "reads: name a sequence-to-sequence model such as T5, BART, PEGASUS-X or LED"
            )
        own_dtype = "auto" if dtype is None else resolve_dtype(dtype)
        model = load_model(AutoModelForSeq2SeqLM, name_or_path, dtype=own_dtype)
        options: dict[str, Any] = {}
        if num_keywords is not None:
            if not has_global_tokens(model):
                raise ValueError(
                    f"a {config.model_type} model has no global tokens for keywords: "
                    "use a model such as LED"
                )
            options = {"num_keywords": num_keywords, "detector": detector, "language": language}
        model = speed_up_if_possible(model).eval().to(resolve_device(device))
        return cls(model, load_processor(name_or_path, config, **options))

    @torch.inference_mode()
    def summarize(
        self, document: Document, *, words: int | None = None, query: str | None = None
    ) -> str:
        """Write a summary.

        Documents longer than the model takes are truncated, with a warning.

        Args:
            document: What to summarize.
            words: Budget; the summary ends with the last sentence that fits, or else is one
                sentence. By default what the checkpoint was made to write, or 150.
            query: What the summary is to be about.
        """
        inputs = self.processor(document, query=query).to(self.model.device)
        generation_config = self.model.generation_config
        if words is None and not (generation_config.max_length or generation_config.max_new_tokens):
            words = DEFAULT_WORDS
        limits = {}
        if words is not None:
            limit = self._longest_output
            tokens = _TOKENS_PER_WORD * words
            limits["max_new_tokens"] = tokens if limit is None else min(tokens, limit)
        [output] = self.model.generate(**inputs, **limits)
        text = str(self.processor.tokenizer.decode(output, skip_special_tokens=True)).strip()
        return text if words is None else _first_sentences(text, words)

    @property
    def _longest_output(self) -> int | None:
        """Tokens that the decoder has positions for, but for the one that it begins with."""
        config = self.model.config
        names = ("max_decoder_position_embeddings", "max_position_embeddings")
        limit = next((limit for name in names if (limit := getattr(config, name, None))), None)
        return None if limit is None else limit - 1


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
