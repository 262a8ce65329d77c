"""Keyword global attention for any LED or Longformer checkpoint: inputs, and no new model."""

import warnings
from collections.abc import Mapping, Sequence
from inspect import signature
from typing import Any

from transformers import BatchEncoding, PreTrainedModel, PreTrainedTokenizerBase

from foveate.detectors import Detector, Keyword, tfidf
from foveate.documents import Document, as_documents

from .collate import pad_features
from .text import plain_text


class LEDProcessor:
    """Prefix a document's keywords to its text, and make them global tokens (EGAD, 2).

    A row is what the tokenizer makes of `keyword keyword … text`, parted by spaces, with its own
    special tokens around. Global are the first token, which stands for the task, and those of the
    keywords: they attend to everything, and everything attends to them. Without keywords, that is
    the usual input of LED.

    The rows of `encode` are the items of a dataset, and `pad` is the `data_collator` of a
    `Trainer`; what calling the processor gives goes to `model(**batch)` or
    `model.generate(**batch)`.

    Args:
        tokenizer: any fast tokenizer that puts a special token before the text and one behind it,
            as LED's and Longformer's do.
        detector: gives the keywords; by default `foveate.detectors.tfidf`.
        k: number of keywords, 0 for none.
        max_length: tokens of a row at most; what is beyond is left out with a warning. None is
            the tokenizer's own limit.

    Raises:
        ValueError: the tokenizer is not fast or puts no such tokens; or `k` is negative.
        TypeError: a detector that is no function, such as its name.

    Example:
        >>> from foveate import Document
        >>> from foveate.inference.default import default_model_path
        >>> from foveate.preprocessing.led import LEDProcessor
        >>> from transformers import AutoTokenizer
        >>> tokenizer = AutoTokenizer.from_pretrained(default_model_path())
        >>> processor = LEDProcessor(tokenizer, k=1)
        >>> batch = processor(Document.from_text("Cod swim. A cod eats."))
        >>> tokenizer.decode(batch["input_ids"][0])
        '[CLS] cod cod swim. a cod eats. [SEP]'
        >>> batch["global_attention_mask"][0].tolist()
        [1, 1, 0, 0, 0, 0, 0, 0, 0, 0]
    """

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerBase,
        detector: Detector = tfidf,
        k: int = 20,
        max_length: int | None = None,
    ) -> None:
        if not tokenizer.is_fast:
            raise ValueError(
                "the tokenizer does not say where its tokens stand in the text, so keywords cannot "
                "be told from it: load a fast one"
            )
        special = tokenizer("a", return_special_tokens_mask=True)["special_tokens_mask"]
        if not (special[0] and special[-1]):
            raise ValueError(
                "the tokenizer does not put special tokens before the text, to stand for the task, "
                "and behind it: use one that does, such as LED's, Longformer's or BERT's"
            )
        if k < 0:
            raise ValueError(f"k must be at least 0, got {k}")
        if not callable(detector):
            raise TypeError(
                f"expected a detector, got {detector!r}: give a function such as tfidf of "
                "foveate.detectors, or what detector_by_name there returns"
            )
        self.tokenizer = tokenizer
        self.detector = detector
        self.k = k
        self.max_length = tokenizer.model_max_length if max_length is None else max_length

    def __call__(
        self, documents: Document | Sequence[Document], targets: Sequence[str] | None = None
    ) -> BatchEncoding:
        """Encode one document or several, and pad: `encode`, then `pad`."""
        return self.pad(self.encode(documents, targets))

    def encode(
        self,
        documents: Document | Sequence[Document],
        targets: Sequence[str] | None = None,
        *,
        max_target_length: int | None = None,
    ) -> list[dict[str, list[int]]]:
        """Encode documents as rows of their own lengths.

        Args:
            documents: one, or a sequence.
            targets: what the model is to write, one for each document.
            max_target_length: tokens of a target at most, None for no limit.

        Returns:
            For each document `input_ids`, `attention_mask` and `global_attention_mask`, which is
            1 at global tokens; with targets also `labels`.

        Raises:
            ValueError: as many targets as there are not documents; or keywords that leave no room
                for the text.
        """
        documents = as_documents(documents)
        rows = _cut_all([self.whole(one) for one in documents], self.max_length, "documents")
        if targets is None:
            return rows
        if len(targets) != len(documents):
            raise ValueError(f"{len(documents)} documents need as many targets, got {len(targets)}")
        ids = self.tokenizer(text_target=list(targets), verbose=False)["input_ids"]
        labels = [{"labels": own} for own in ids]
        if max_target_length is not None:
            labels = _cut_all(labels, max_target_length, "targets")
        return [row | own for row, own in zip(rows, labels, strict=True)]

    def whole(self, document: Document) -> dict[str, list[int]]:
        """Encode one document as `encode` does, but whatever its length.

        Raises:
            ValueError: the keywords would leave no room for the text.
        """
        keywords = [keyword.text for keyword in self.keywords(document)]
        row = guided(self.tokenizer, plain_text(document), keywords)
        check_room(row, self.max_length)
        return row

    def keywords(self, document: Document) -> list[Keyword]:
        """Detect the keywords that are prefixed."""
        return self.detector(document, self.k) if self.k else []

    def pad(self, rows: Sequence[Mapping[str, Any]]) -> BatchEncoding:
        """Collate rows of different lengths: what a `Trainer` takes as collator."""
        return pad_features(self.tokenizer, rows)


def guided(
    tokenizer: PreTrainedTokenizerBase, text: str, keywords: Sequence[str]
) -> dict[str, list[int]]:
    """Encode a text with keywords before it, whatever its length.

    Args:
        tokenizer: as for `LEDProcessor`.
        text: what the keywords are prefixed to.
        keywords: words or phrases.

    Returns:
        `input_ids`, `attention_mask` and `global_attention_mask`.
    """
    prefix = " ".join(keywords)
    # verbose=False: the text may be longer than the model takes; cutting it is the caller's.
    tokens = tokenizer(
        f"{prefix} {text}" if prefix else text,
        return_offsets_mapping=True,
        return_special_tokens_mask=True,
        verbose=False,
    )
    of_keyword = [
        int(bool(prefix) and not special and end <= len(prefix))
        for special, (_, end) in zip(
            tokens["special_tokens_mask"], tokens["offset_mapping"], strict=True
        )
    ]
    return {
        "input_ids": tokens["input_ids"],
        "attention_mask": tokens["attention_mask"],
        "global_attention_mask": [1, *of_keyword[1:]],
    }


def check_room(row: dict[str, list[int]], longest: int) -> None:
    """Raise a ValueError where keywords would leave no room for any of the text."""
    if sum(row["global_attention_mask"]) + 1 >= longest:
        raise ValueError(
            f"the keywords fill the {longest:,} tokens of a row, and leave no room for the text: "
            "ask for fewer keywords or a greater length"
        )


def has_global_tokens(model: PreTrainedModel) -> bool:
    """Whether a model takes a `global_attention_mask`: LED does, Longformer, and few others."""
    reader = model.get_encoder() if model.config.is_encoder_decoder else model
    return "global_attention_mask" in signature(reader.forward).parameters


def cut(row: dict[str, list[int]], longest: int) -> dict[str, list[int]]:
    """Leave out what is beyond, but keep the last token, the special one that ends a row."""
    return {
        name: own if len(own) <= longest else [*own[: longest - 1], own[-1]]
        for name, own in row.items()
    }


def _cut_all(
    rows: list[dict[str, list[int]]], longest: int, what: str
) -> list[dict[str, list[int]]]:
    lengths = [len(next(iter(row.values()))) for row in rows]
    longer = [length for length in lengths if length > longest]
    if longer:
        warnings.warn(
            f"{len(longer)} of {len(rows)} {what} are longer than {longest:,} tokens (the longest "
            f"has {max(longer):,}): what is beyond is left out",
            stacklevel=3,
        )
    return [cut(row, longest) for row in rows]
