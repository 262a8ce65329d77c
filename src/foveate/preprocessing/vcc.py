"""VIP tokens: what a task asks, marked beside the document it asks of (VCC, 3.1)."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from transformers import BatchEncoding, PreTrainedTokenizerBase

from foveate.documents import Document, as_documents

from .collate import IGNORE_INDEX, pad_features
from .led import cut
from .text import plain_text


class VCCProcessor:
    """Put a prompt before a document, and mark it as VIP tokens.

    A prompt is what the document is read for: a question, with its choices where it has some, or
    the prefix that a model knows its task by, such as "summarize:". With a tokenizer that has a CLS
    token, as BERT's and RoBERTa's, prompt and document are a pair of sequences, and all before the
    document is VIP, CLS included; with others, as T5's, they are one text.

    The rows of `encode` are the items of a dataset, and `pad` is the `data_collator` of a
    `Trainer`; what calling the processor gives goes to `model(**batch)` or
    `model.generate(**batch)`.

    Args:
        tokenizer: any fast tokenizer.
        max_length: tokens of a row at most: what is beyond is left out. None for no limit.

    Raises:
        ValueError: the tokenizer is not fast.

    Example:
        >>> from foveate import Document, VCCProcessor
        >>> from foveate.inference.default import default_model_path
        >>> from transformers import AutoTokenizer
        >>> tokenizer = AutoTokenizer.from_pretrained(default_model_path())
        >>> batch = VCCProcessor(tokenizer)(Document.from_text("Cod swim."), "Which fish?")
        >>> tokenizer.decode(batch["input_ids"][0])
        '[CLS] which fish? [SEP] cod swim. [SEP]'
        >>> batch["vip_mask"][0].tolist()
        [1, 1, 1, 1, 1, 0, 0, 0, 0]
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, max_length: int | None = None) -> None:
        _check_fast(tokenizer)
        self.tokenizer = tokenizer
        self.max_length = max_length

    def __call__(
        self,
        documents: Document | Sequence[Document],
        prompts: str | Sequence[str],
        targets: Sequence[str] | None = None,
    ) -> BatchEncoding:
        """Encode one document or several, and pad: `encode`, then `pad`."""
        return self.pad(self.encode(documents, prompts, targets))

    def encode(
        self,
        documents: Document | Sequence[Document],
        prompts: str | Sequence[str],
        targets: Sequence[str] | None = None,
    ) -> list[dict[str, list[int]]]:
        """Encode documents as rows of their own lengths.

        Args:
            documents: one, or a sequence.
            prompts: one for each document, or one for all.
            targets: what the model is to write, one for each document.

        Returns:
            For each document what the tokenizer gives and `vip_mask`, 1 at VIP tokens; with
            targets also `labels`.

        Raises:
            ValueError: as many prompts or targets as there are not documents, or a prompt that is
                empty or leaves no room for the document.
        """
        documents = as_documents(documents)
        prompts = [prompts] * len(documents) if isinstance(prompts, str) else list(prompts)
        for name, given in (("prompts", prompts), ("targets", targets)):
            if given is not None and len(given) != len(documents):
                raise ValueError(
                    f"{len(documents)} documents need as many {name}, got {len(given)}"
                )
        if not all(prompt.strip() for prompt in prompts):
            raise ValueError("a prompt is empty: say what the document is read for")
        rows = []
        for document, prompt in zip(documents, prompts, strict=True):
            row, _ = prompted(self.tokenizer, prompt, plain_text(document))
            if self.max_length is not None:
                if sum(row["vip_mask"]) + 1 >= self.max_length:
                    raise ValueError(
                        f"the prompt fills the {self.max_length:,} tokens of a row: shorten it, or "
                        "give a greater max_length"
                    )
                row = cut(row, self.max_length)
            rows.append(row)
        if targets is not None:
            labels = self.tokenizer(text_target=list(targets), verbose=False)["input_ids"]
            rows = [row | {"labels": own} for row, own in zip(rows, labels, strict=True)]
        return rows

    def choices(
        self,
        documents: Document | Sequence[Document],
        questions: Sequence[str],
        choices: Sequence[Sequence[str]],
    ) -> BatchEncoding:
        """Encode multiple choice: each document once with each choice for its question.

        Args:
            documents: one, or a sequence.
            questions: one for each document.
            choices: as many for each document.

        Returns:
            int64 tensors `(documents, choices, longest)`.

        Raises:
            ValueError: numbers that differ.
        """
        documents = as_documents(documents)
        counts = {len(some) for some in choices}
        if len(counts) != 1 or not len(documents) == len(questions) == len(choices):
            raise ValueError(
                "give one question and equally many choices for each document, got "
                f"{len(documents)} documents, {len(questions)} questions and choices for "
                f"{len(choices)}, {sorted(counts)} of them"
            )
        prompts = [
            f"{question} {choice}"
            for question, own in zip(questions, choices, strict=True)
            for choice in own
        ]
        (count,) = counts
        flat = self([document for document in documents for _ in range(count)], prompts)
        return BatchEncoding({name: rows.unflatten(0, (-1, count)) for name, rows in flat.items()})

    def pad(self, rows: Sequence[Mapping[str, Any]]) -> BatchEncoding:
        """Collate rows of different lengths: what a `Trainer` takes as collator."""
        return pad_features(self.tokenizer, rows)


def prompted(
    tokenizer: PreTrainedTokenizerBase, prompt: str, text: str
) -> tuple[dict[str, list[int]], list[int]]:
    """Encode a text of any length with a prompt before it.

    Returns:
        What the tokenizer gives and `vip_mask`; and for each token its place in the text, -1 where
        it stands for none of it.

    Raises:
        ValueError: the tokenizer is not fast, or the prompt has no token.
    """
    _check_fast(tokenizer)
    pair = tokenizer.cls_token is not None
    # verbose=False: the row may be longer than the checkpoint was trained on, which is meant.
    tokens = tokenizer(
        *([prompt, text] if pair else [f"{prompt} {text}"]),
        return_offsets_mapping=True,
        return_special_tokens_mask=True,
        verbose=False,
    )
    begin = 0 if pair else len(prompt) + 1
    offsets, special = tokens.pop("offset_mapping"), tokens.pop("special_tokens_mask")
    places = [
        -1 if is_special or sequence != int(pair) or end <= begin else max(0, start - begin)
        for (start, end), is_special, sequence in zip(
            offsets, special, tokens.sequence_ids(), strict=True
        )
    ]
    first = next((i for i, place in enumerate(places) if place >= 0), len(places))
    if first == 0:
        raise ValueError("the prompt is empty: say what the document is read for")
    row = {name: list(values) for name, values in tokens.items()}
    return row | {"vip_mask": [int(i < first) for i in range(len(places))]}, places


def _check_fast(tokenizer: PreTrainedTokenizerBase) -> None:
    if not tokenizer.is_fast:
        raise ValueError(
            "the tokenizer does not say where its tokens stand in the text, so the prompt "
            "cannot be told from the document: load a fast one"
        )


def mark_masked(
    batch: Mapping[str, torch.Tensor], tokenizer: PreTrainedTokenizerBase
) -> BatchEncoding:
    """Mark what masked-language-model training asks for: masked tokens, and the first of each row.

    Masked tokens are the tokenizer's mask tokens, or T5's sentinels; where labels are given for
    the tokens themselves, also those with a label, which may have been left as they are.

    Args:
        batch: `input_ids` and perhaps `attention_mask` and `labels`, all `(rows, length)`, as a
            collator of transformers makes it.
        tokenizer: its tokenizer.

    Returns:
        The batch with `vip_mask`.
    """
    ids = batch["input_ids"]
    first = torch.arange(ids.shape[1], device=ids.device).expand_as(ids) == 0
    if "attention_mask" in batch:
        first = batch["attention_mask"].cumsum(1).eq(1) & batch["attention_mask"].bool()
    if tokenizer.mask_token_id is not None:
        marked = ids == tokenizer.mask_token_id
        if "labels" in batch:
            marked = marked | (batch["labels"] != IGNORE_INDEX)
    else:
        vocabulary = tokenizer.get_vocab()
        sentinels = [own for token, own in vocabulary.items() if token.startswith("<extra_id_")]
        marked = torch.isin(ids, torch.tensor(sentinels, dtype=ids.dtype, device=ids.device))
    return BatchEncoding({**batch, "vip_mask": (marked | first).long()})
