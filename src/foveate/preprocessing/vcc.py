"""Inputs of models with VIP-token centric compression (VCC): the prompt is marked as VIP tokens."""

from collections.abc import Sequence
from typing import ClassVar

import torch
from transformers import PreTrainedTokenizerBase

from foveate.documents import Document

from .collate import Features
from .processor import DocumentProcessor, join_prompt
from .text import plain_text, sentence_ids, text_and_sentences


class VCCProcessor(DocumentProcessor):
    """Put a prompt before a document, and mark it as VIP tokens (VCC, sections 3.1 and 4).

    The prompt is the question with its choices or, without a question, "summarize:". A tokenizer
    with a CLS token, such as BERT's and RoBERTa's, takes question and document as a pair of
    sequences; all tokens before the document are VIP tokens, including CLS, which is the only one
    without a question. A separator precedes each choice, and `choice_mask` is 1 there. With other
    tokenizers, such as T5's, prompt and document are one text.

    Args:
        tokenizer: Any fast tokenizer.
        max_length: Longest input in tokens, None for no limit.

    Raises:
        ValueError: The tokenizer is not fast, or `max_length` is below 1.

    Example:
        >>> from foveate import Document
        >>> from foveate.inference import default_model_path
        >>> from foveate.preprocessing import VCCProcessor, load_tokenizer
        >>> tokenizer = load_tokenizer(default_model_path())
        >>> cod = Document.from_text("Cod swim.")
        >>> batch = VCCProcessor(tokenizer)(cod, query="Which fish?")
        >>> tokenizer.decode(batch["input_ids"][0])
        '[CLS] which fish? [SEP] cod swim. [SEP]'
        >>> batch["vip_mask"][0].tolist()
        [1, 1, 1, 1, 1, 0, 0, 0, 0]
    """

    columns: ClassVar[tuple[str, ...]] = (
        "input_ids",
        "token_type_ids",
        "attention_mask",
        "vip_mask",
        "choice_mask",
    )

    def __init__(self, tokenizer: PreTrainedTokenizerBase, max_length: int | None = None) -> None:
        if not tokenizer.is_fast:
            raise ValueError(
                "the tokenizer does not say which characters its tokens stand for, so the prompt "
                "cannot be found among them: load a fast tokenizer"
            )
        super().__init__(tokenizer, max_length)

    def prompt(self, query: str, choices: Sequence[str]) -> str:
        """Write out the prompt, whose tokens are the VIP tokens."""
        question = join_prompt(query, choices)
        if self._takes_pairs:
            return query + "".join(f"{self.tokenizer.sep_token}{choice}" for choice in choices)
        return f"question: {question} context:" if question else "summarize:"

    def text(self, document: Document, query: str = "", choices: Sequence[str] = ()) -> str:
        """Write out what the model reads; `offset_mapping` points into it."""
        prompt = self.prompt(query, choices)
        return f"{prompt} {plain_text(document)}" if prompt else plain_text(document)

    def prompted_features(self, document: Document, query: str, choices: Sequence[str]) -> Features:
        """Tokenize the prompt and a document of any length."""
        features = self._features(document, self.prompt(query, choices))
        if choices and self._takes_pairs:
            # The separators of pairs stand for no characters.
            is_marker = features["input_ids"] == self.tokenizer.sep_token_id
            is_marker &= features["offset_mapping"].diff(dim=1)[:, 0] > 0
            features["choice_mask"] = is_marker * features["vip_mask"]
        num_vip_tokens = int(features["vip_mask"].sum())
        if self.max_length is not None and num_vip_tokens + 1 >= self.max_length:
            raise ValueError(
                f"the prompt fills all {self.max_length:,} tokens of the input: shorten it, or "
                "give a greater max_length"
            )
        return features

    def document_features(self, document: Document) -> Features:
        """Tokenize a document alone, with its first token as the VIP token.

        Pretraining objectives make the tokens that they mask VIP tokens instead.
        """
        return self.truncate(self._features(document, ""))

    @property
    def _takes_pairs(self) -> bool:
        return self.tokenizer.cls_token is not None

    def _features(self, document: Document, prompt: str) -> Features:
        text, sentences = text_and_sentences(document)
        is_pair = bool(prompt) and self._takes_pairs
        # verbose=False: inputs may be longer than those that the checkpoint was trained on.
        tokens = self.tokenizer(
            *([prompt, text] if is_pair else [f"{prompt} {text}" if prompt else text]),
            return_offsets_mapping=True,
            return_special_tokens_mask=True,
            verbose=False,
        )
        offsets = torch.tensor(tokens.pop("offset_mapping")).view(-1, 2)
        if not self._takes_pairs:
            tokens.pop("token_type_ids", None)
        features = {name: torch.tensor(column) for name, column in tokens.items()}
        start = len(prompt) + 1 if prompt else 0  # where the document's text begins
        if is_pair:  # offsets of the second sequence count from its own beginning
            is_document = torch.tensor([sequence == 1 for sequence in tokens.sequence_ids()])
            offsets[is_document] += start
        is_prompt = (features["special_tokens_mask"] == 1) | (offsets[:, 1] <= start)
        features["vip_mask"] = is_prompt.long().cumprod(0)
        features["vip_mask"][0] = 1
        features["offset_mapping"] = offsets
        features["sentence_ids"] = sentence_ids(offsets, sentences + start)
        return features
