"""Inputs of TreeBert."""

from typing import ClassVar

import torch
from transformers import PreTrainedTokenizerBase

from .collate import Features
from .hdt import HDTProcessor
from .tree import NODE_TYPES, closing_ids


class TreeBertProcessor(HDTProcessor):
    """Turn documents into token ids, the parent of each, and what it stands for.

    Trees are those of `HDTProcessor`, with a level for every level of nesting, and passages are
    enclosed as in BERT's training: [CLS], which is the passage's anchor, and [SEP] at the end of
    each sentence, which stands for the sentence.

    Args:
        tokenizer: Any tokenizer that puts one token before a sentence.
        max_length: Longest input in nodes, None for no limit.
        levels: Depth of the tree, None for one level per level of nesting (see `outline`).
        max_sentence_tokens: Longer sentences are split into several, None for no limit.
        passage_tokens: Most tokens of a passage, every [SEP] included (see `join_into_passages`).

    Raises:
        ValueError: The tokenizer has no CLS token, does not put exactly one token before a sentence
            and at least one after it, `passage_tokens` is None, a passage would be longer than the
            tokenizer's `model_max_length`, or see `HDTProcessor`.

    Example:
        >>> from foveate import Document
        >>> from foveate.inference import default_model_path
        >>> from foveate.preprocessing import TreeBertProcessor, load_tokenizer
        >>> tokenizer = load_tokenizer(default_model_path())
        >>> document = Document.from_sections("", [("", "Cod swim. They eat.")])
        >>> batch = TreeBertProcessor(tokenizer)(document)
        >>> batch["node_types"][0].tolist()
        [3, 2, 4, 0, 0, 0, 1, 0, 0, 0, 1]
    """

    columns: ClassVar[tuple[str, ...]] = (*HDTProcessor.columns, "node_types")

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
                "the tokenizer names no CLS token, which the anchors are: name it in its "
                "tokenizer_config.json"
            )
        if passage_tokens is None:
            raise ValueError("TreeBert reads passages: set passage_tokens")
        super().__init__(
            tokenizer,
            max_length,
            levels,
            max_sentence_tokens,
            passage_tokens,
            "section",
            *[str(tokenizer.cls_token)] * 3,
        )
        if passage_tokens + 1 > tokenizer.model_max_length:
            raise ValueError(
                f"passages of {passage_tokens} tokens and their anchor are longer than the "
                f"{tokenizer.model_max_length} tokens that the model takes: lower passage_tokens"
            )
        bare, enclosed = (tokenizer("a", add_special_tokens=x)["input_ids"] for x in (False, True))
        self.set_special_tokens(self._anchor_ids, closing_ids(bare, enclosed))
        if not self.closing_ids:
            raise ValueError(
                "the tokenizer puts no token (SEP) after a sentence, which would stand for it: "
                "choose a tokenizer that does, such as BERT's"
            )

    def truncate(self, features: Features) -> Features:
        """Drop the nodes beyond `max_length`, and end a passage with [SEP]."""
        features = super().truncate(features)
        if features["node_types"][-1] == NODE_TYPES["token"]:
            last = {"node_types": NODE_TYPES["sentence"], "input_ids": self.closing_ids[-1]}
            for name, value in last.items():
                features[name] = torch.cat([features[name][:-1], torch.tensor([value])])
        return features
