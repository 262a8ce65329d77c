"""Summaries that a sequence-to-sequence checkpoint writes in its own words."""

from os import PathLike
from typing import Any, Self

import torch
from transformers import AutoModelForSeq2SeqLM, PreTrainedModel

from foveate.detectors import Detector
from foveate.documents import Document
from foveate.inference.devices import resolve_device, resolve_dtype
from foveate.models.decoding import has_length_limit, max_new_tokens
from foveate.models.loading import load_config, load_model
from foveate.models.speed_ups import speed_up_if_possible
from foveate.preprocessing import DocumentProcessor, load_processor
from foveate.preprocessing.led import has_global_tokens

DEFAULT_WORDS = 150
"""Longest summary in words where neither the caller nor the checkpoint sets a limit."""

_TOKENS_PER_WORD = 2
"""More tokens than a word takes on average, so that generation reaches the end of a sentence."""


class Summarizer:
    """A sequence-to-sequence checkpoint that summarizes.

    Args:
        model: The Transformer, in evaluation mode.
        processor: The model's processor.
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
            detector: Keyword detector, a name or a function; used only with `num_keywords`.
            language: ISO 639 code of the documents' language, for a detector given by name.

        Raises:
            OSError: There is no such checkpoint, or it has no safetensors weights.
            ValueError: It is not a sequence-to-sequence model, it has no global tokens for
                keywords, or the dtype or device is not supported.
        """
        config = load_config(name_or_path)
        if not config.is_encoder_decoder:
            raise ValueError(
                f"{name_or_path} is a {config.model_type} model, which does not generate text from "
                "a document: name a sequence-to-sequence model such as T5, BART, PEGASUS-X or LED"
            )
        device = resolve_device(device)
        model = load_model(
            AutoModelForSeq2SeqLM,
            name_or_path,
            dtype="auto" if dtype is None else resolve_dtype(dtype, device),
        )
        options: dict[str, Any] = {}
        if num_keywords is not None:
            if not has_global_tokens(model):
                raise ValueError(
                    f"a {config.model_type} model has no global tokens for keywords: "
                    "use a model such as LED"
                )
            options = {"num_keywords": num_keywords, "detector": detector, "language": language}
        model = speed_up_if_possible(model).eval().to(device)
        return cls(model, load_processor(name_or_path, config, **options))

    @torch.inference_mode()
    def summarize(
        self, document: Document, *, words: int | None = None, query: str | None = None
    ) -> str:
        """Write a summary.

        Args:
            document: The document to summarize.
            words: Longest summary in words; it ends with the last sentence that fits, but has at
                least one. By default the checkpoint's own limit, else 150 words.
            query: The topic of the summary.

        Warns:
            UserWarning: A document longer than the model takes is truncated.
        """
        inputs = self.processor(document, query=query).to(self.model.device)
        if words is None and not has_length_limit(self.model.generation_config):
            words = DEFAULT_WORDS
        limits = {}
        if words is not None:
            tokens = _TOKENS_PER_WORD * words
            limits["max_new_tokens"] = max_new_tokens(self.model.config, tokens)
        [output] = self.model.generate(**inputs, **limits)
        text = str(self.processor.tokenizer.decode(output, skip_special_tokens=True)).strip()
        return text if words is None else _first_sentences(text, words)


def _first_sentences(text: str, words: int) -> str:
    """Keep as many whole sentences as fit in a number of words, at least one."""
    if not text:
        return text
    sentences: list[str] = []
    for sentence in Document.from_text(text).sentences():
        words -= len(sentence.text.split())
        if sentences and words < 0:
            break
        sentences.append(sentence.text)
    return " ".join(sentences)
