"""Answers that a T5 generates from whole documents, with the sentences that it attended to."""

from collections.abc import Sequence
from os import PathLike
from typing import Any, Self

import torch
from torch import Tensor
from transformers import PreTrainedModel

from foveate.documents import Document
from foveate.inference.devices import resolve_device, resolve_dtype
from foveate.models.decoding import has_length_limit
from foveate.models.loading import load_config, load_model
from foveate.models.vcc import VccT5ForConditionalGeneration
from foveate.preprocessing import VCCProcessor, load_processor
from foveate.preprocessing.processor import warn_of_truncation
from foveate.progress import progress

DEFAULT_ANSWER_TOKENS = 128
"""Longest answer in tokens where the checkpoint does not say."""


class Answerer:
    """A T5 checkpoint that reads whole documents with the question as its VIP tokens (VCC).

    Args:
        model: The Transformer, in evaluation mode.
        processor: The model's processor.
    """

    def __init__(self, model: PreTrainedModel, processor: VCCProcessor) -> None:
        self.model: Any = model  # transformers declares `generate` on a mixin alone
        self.processor = processor

    @classmethod
    def from_pretrained(
        cls,
        name_or_path: str | PathLike[str],
        *,
        device: str | torch.device | None = None,
        dtype: str | torch.dtype | None = None,
    ) -> Self:
        """Load a checkpoint of T5 or of VCC.

        Args:
            name_or_path: A folder, or a name on the hub, which is then downloaded.
            device: By default CUDA if available, else the CPU.
            dtype: float32, bfloat16 or float16; by default that of the checkpoint.

        Raises:
            OSError: There is no such checkpoint, or it has no safetensors weights.
            ValueError: It is not a T5, or the dtype or device is not supported.
        """
        kind = load_config(name_or_path).model_type
        if kind not in ("t5", "vcc_t5"):
            raise ValueError(
                f"{name_or_path} is a {kind} model: name a T5 checkpoint to answer in its own "
                "words, whose encoder can read a whole document"
            )
        device = resolve_device(device)
        model = load_model(
            VccT5ForConditionalGeneration,
            name_or_path,
            dtype="auto" if dtype is None else resolve_dtype(dtype, device),
        )
        processor = load_processor(name_or_path, model.config)
        if not isinstance(processor, VCCProcessor):  # saved with a T5 that reads plain text
            processor = VCCProcessor(processor.tokenizer)
        return cls(model.eval().to(device), processor)

    @torch.inference_mode()
    def answer(
        self, query: str, document: Document, *, choices: Sequence[str] = ()
    ) -> tuple[str, Tensor]:
        """Answer a question from a document.

        Args:
            query: The question.
            document: The document to read, of any length unless the processor has a `max_length`.
            choices: Answers to choose from.

        Returns:
            The answer; and `(sentences,)` float32, how much the question attended to each of
            `Document.sentences`: the highest share of its attention that one of the sentence's
            tokens got, averaged over the compressed layers.

        Warns:
            UserWarning: A document longer than the processor's `max_length` is truncated.
        """
        untruncated = self.processor.prompted_features(document, query, choices)
        num_tokens = len(untruncated["input_ids"])
        warn_of_truncation("document", num_tokens, self.processor.max_length)
        features = self.processor.truncate(untruncated)
        sentence_ids = features["sentence_ids"]
        inputs = self.processor.pad([self.processor.model_inputs(features)]).to(self.model.device)
        with progress("Reading", 2) as advance:
            encoded = self.model.encoder(**inputs, output_vip_scores=True, return_dict=True)
            advance()
            limits = {}
            if not has_length_limit(self.model.generation_config):
                limits["max_new_tokens"] = DEFAULT_ANSWER_TOKENS
            [output] = self.model.generate(
                encoder_outputs=encoded, attention_mask=inputs["attention_mask"], **limits
            )
            advance()
        text = str(self.processor.tokenizer.decode(output, skip_special_tokens=True)).strip()
        token_scores = torch.zeros(len(sentence_ids))
        if encoded.vip_scores:
            token_scores = torch.stack(encoded.vip_scores).float().mean(0)[0].cpu()
        num_sentences = sum(1 for _ in document.sentences())
        return text, best_of_sentences(token_scores, sentence_ids, num_sentences)


def best_of_sentences(token_scores: Tensor, sentence_ids: Tensor, num_sentences: int) -> Tensor:
    """Compute the highest score of the tokens of each sentence.

    Args:
        token_scores: `(tokens,)`.
        sentence_ids: `(tokens,)` int64, -1 for tokens of no sentence.
        num_sentences: Number of sentences; those without a token score 0.

    Returns:
        `(num_sentences,)`.
    """
    inside = sentence_ids >= 0
    best = torch.zeros(num_sentences, dtype=token_scores.dtype)
    return best.scatter_reduce(0, sentence_ids[inside], token_scores[inside], "amax")
