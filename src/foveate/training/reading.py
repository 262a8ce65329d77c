"""How documents become rows: as trees for HDT, as text for other models, with keywords for EGAD."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from transformers import PreTrainedTokenizerBase

from foveate.documents import Document
from foveate.preprocessing.hdt import HDTProcessor
from foveate.preprocessing.led import LEDProcessor, cut
from foveate.preprocessing.text import plain_text

from .rows import Row, pad


@dataclass(frozen=True)
class Reader:
    """A way to read.

    Attributes:
        read: a document, with a question or "", to a row.
        tokenizer: the vocabulary.
        tree: whether rows are trees.
        saved: what is saved beside the model: the processor or the tokenizer.
    """

    read: Callable[[Document, str], Row]
    tokenizer: PreTrainedTokenizerBase
    tree: bool
    saved: PreTrainedTokenizerBase | HDTProcessor

    def pad(self, rows: Sequence[Row]) -> Row:
        """Collate rows, padded."""
        return pad(rows, self.tokenizer.pad_token_id or 0)


def as_tree(
    tokenizer: PreTrainedTokenizerBase, max_length: int | None = None, levels: int | None = 3
) -> Reader:
    """Read as a tree of anchors and tokens; a question is the first section."""
    processor = HDTProcessor(tokenizer, levels=levels, max_length=max_length)
    return Reader(partial(_tree, processor), tokenizer, True, processor)


def as_text(
    tokenizer: PreTrainedTokenizerBase, max_length: int | None = None, vips: bool = False
) -> Reader:
    """Read as plain text, a question first; what is beyond the limit is left out.

    With `vips`, the first token and the question's are VIP tokens (VCC); where tokens are
    hidden, those that stand for them are instead.

    Raises:
        ValueError: `vips`, but the tokenizer is not fast and so cannot tell the question.
    """
    if vips and not tokenizer.is_fast:
        raise ValueError("VIP tokens are told by a fast tokenizer: load one")
    return Reader(partial(_text, tokenizer, max_length, vips), tokenizer, False, tokenizer)


def with_keywords(
    tokenizer: PreTrainedTokenizerBase, max_length: int | None = None, keywords: int = 20
) -> Reader:
    """Read as plain text with keywords before it, which are global (EGAD, 2).

    What is beyond the limit is left out.
    """
    processor = LEDProcessor(tokenizer, k=keywords, max_length=max_length)
    return Reader(partial(_guided, processor), tokenizer, False, tokenizer)


def question_and_text(document: Document, question: str) -> str:
    """What a model of plain text reads: the question, if there is one, and the document."""
    text = plain_text(document)
    return f"{question}\n{text}" if question else text


def _tree(processor: HDTProcessor, document: Document, question: str) -> Row:
    batch = processor(document, query=question or None, return_special_tokens_mask=True)
    return {name: batch[name][0] for name in ("input_ids", "parent_ids", "special_tokens_mask")}


def _text(
    tokenizer: PreTrainedTokenizerBase,
    max_length: int | None,
    vips: bool,
    document: Document,
    question: str,
) -> Row:
    tokens = tokenizer(
        question_and_text(document, question),
        max_length=max_length,
        truncation=max_length is not None,
        return_special_tokens_mask=True,
        return_offsets_mapping=tokenizer.is_fast,
        verbose=False,
    )
    row = {
        name: torch.tensor(tokens[name])
        for name in ("input_ids", "attention_mask", "special_tokens_mask")
    }
    if tokenizer.is_fast:
        row["offsets"] = torch.tensor(tokens["offset_mapping"])
    if vips:
        of_question = (row["special_tokens_mask"] == 0) & (row["offsets"][:, 1] <= len(question))
        row["vip_mask"] = of_question.long()
        row["vip_mask"][0] = 1
    return row


def _guided(processor: LEDProcessor, document: Document, question: str) -> Row:
    if question:
        raise ValueError("keywords are read from documents alone: leave the questions out")
    row = cut(processor.whole(document), processor.max_length)
    special = processor.tokenizer.all_special_ids
    ids = torch.tensor(row["input_ids"])
    return {
        "input_ids": ids,
        "attention_mask": torch.tensor(row["attention_mask"]),
        "global_attention_mask": torch.tensor(row["global_attention_mask"]),
        "special_tokens_mask": torch.isin(ids, torch.tensor(special)).long(),
    }
