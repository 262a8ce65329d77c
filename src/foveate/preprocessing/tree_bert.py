"""Inputs of TreeBert."""

from collections.abc import Sequence
from typing import ClassVar

import torch
from tokenizers import Encoding
from transformers import PreTrainedTokenizerBase

from foveate.documents import Document

from .collate import Features
from .hdt import with_query_section
from .processor import DocumentProcessor, join_prompt
from .tree import outline
from .tree_builder import PassageBuilder


class TreeBertProcessor(PassageBuilder, DocumentProcessor):
    """Turn documents into passages, and the outline of their sentences.

    Passages are enclosed as in BERT's training: [CLS] at the beginning, and [SEP] at the end of
    each sentence, which stands for the sentence.

    Args:
        tokenizer: Any tokenizer that puts one token before a sentence.
        max_length: Longest input in tokens, None for no limit.
        levels: Depth of the outline, None for one level per level of nesting (see `outline`).
        max_sentence_tokens: Longer sentences are split into several, None for no limit.
        passage_tokens: Most tokens of a passage, every [SEP] included (see `join_into_passages`).

    Raises:
        ValueError: The tokenizer has no CLS token, does not put exactly one token before a sentence
            and at least one after it, a limit is too low, `passage_tokens` is None, or a passage
            would be longer than the tokenizer's `model_max_length`.

    Example:
        >>> from foveate import Document
        >>> from foveate.inference import default_model_path
        >>> from foveate.preprocessing import TreeBertProcessor, load_tokenizer
        >>> tokenizer = load_tokenizer(default_model_path())
        >>> document = Document.from_sections("", [("", "Cod swim. They eat.")])
        >>> batch = TreeBertProcessor(tokenizer)(document)
        >>> tokenizer.decode(batch["input_ids"][0])
        '[CLS] cod swim. [SEP] they eat. [SEP]'
        >>> batch["anchor_kinds"][0].tolist(), batch["anchor_ids"][0].tolist()
        ([3, 2, 1, 1], [-1, 2, 2, 2, 2, 3, 3, 3, 3])
    """

    columns: ClassVar[tuple[str, ...]] = (
        "input_ids",
        "attention_mask",
        "position_ids",
        "anchor_ids",
        "anchor_parents",
        "anchor_kinds",
    )

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerBase,
        max_length: int | None = None,
        levels: int | None = None,
        max_sentence_tokens: int | None = 254,
        passage_tokens: int = 448,
    ) -> None:
        if tokenizer.cls_token is None:
            raise ValueError(
                "the tokenizer names no CLS token, which begins a passage: name it in its "
                "tokenizer_config.json"
            )
        if passage_tokens is None:
            raise ValueError("TreeBert reads passages: set passage_tokens")
        if max_length is not None and max_length < 2:
            raise ValueError(f"max_length must be at least 2 or None, got {max_length}")
        bare, enclosed = (tokenizer("a", add_special_tokens=x)["input_ids"] for x in (False, True))
        self.set_special_tokens(tokenizer.cls_token_id, bare, enclosed)
        self.set_limits(levels, max_sentence_tokens, passage_tokens)
        if passage_tokens + 1 > tokenizer.model_max_length:
            raise ValueError(
                f"passages of {passage_tokens} tokens and their [CLS] are longer than the "
                f"{tokenizer.model_max_length} tokens that the model takes: lower passage_tokens"
            )
        super().__init__(tokenizer, max_length)

    def prompted_features(self, document: Document, query: str, choices: Sequence[str]) -> Features:
        """Tokenize a document of any length, with a query as its first section.

        Returns:
            See `passage_columns`; and `attention_mask` and `special_tokens_mask` `(tokens,)`.
        """
        anchors = outline(document, levels=self.levels)
        if query := join_prompt(query, choices):
            anchors = with_query_section(anchors, query)
        columns, _ = self.tree(anchors)
        return {
            **columns,
            "attention_mask": torch.ones_like(columns["input_ids"]),
            "special_tokens_mask": (columns["position_ids"] == 0).long(),
        }

    def document_features(self, document: Document) -> Features:
        """Tokenize a document without a query."""
        return self.truncate(self.prompted_features(document, "", ()))

    def token_ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Tokenize texts of any length, without special tokens."""
        # verbose=False: what is too long is split afterwards, so a warning would be wrong.
        ids = self.tokenizer(list(texts), add_special_tokens=False, verbose=False)["input_ids"]
        return list(ids)

    def encoding(self, text: str) -> Encoding:
        """Tokenize a text of any length, without special tokens, with the place of each token."""
        encoding: Encoding
        [encoding] = self.tokenizer(text, add_special_tokens=False, verbose=False).encodings
        return encoding

    def truncate(self, features: Features) -> Features:
        """Drop the tokens beyond `max_length` and the anchors after them, and end with [SEP]."""
        end = self.max_length
        if end is None or len(features["input_ids"]) <= end:
            return features
        end -= int(features["position_ids"][end - 1] == 0)  # a [CLS] with nothing after it
        last = int(features["anchor_ids"][end - 1])
        kept = {
            name: column[: last + 1 if name in ("anchor_parents", "anchor_kinds") else end]
            for name, column in features.items()
        }
        closing = torch.tensor(self.closing_ids[-1:])
        return {**kept, "input_ids": torch.cat([kept["input_ids"][:-1], closing])}
