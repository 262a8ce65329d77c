"""Objectives of encoder-decoders, which write."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import transformers
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from foveate.preprocessing.collate import IGNORE_INDEX
from foveate.training.reading import Reader
from foveate.training.rows import Row, forest

from .base import Objective


@dataclass(frozen=True)
class Writing(Objective):
    """What objectives for encoder-decoders share.

    Args:
        max_target_length: tokens to write at most, None for no limit.
    """

    auto = transformers.AutoModelForSeq2SeqLM

    max_target_length: int | None = None

    def collate(self, reader: Reader, rows: Sequence[Row]) -> Row:
        """Lay trees in one row, and pad what is to be written."""
        longest, end = self.max_target_length, end_id(reader)
        rows = [{**row, "labels": _ended(row["labels"], longest, end)} for row in rows]
        if not reader.tree:
            return super().collate(reader, rows)
        labels = pad_sequence([row["labels"] for row in rows], True, IGNORE_INDEX)
        return {**forest(rows), "labels": labels}


@dataclass(frozen=True)
class SequenceToSequence(Writing):
    """Write the first reference from the document, and the question if there is one."""

    def rows(self, reader: Reader, example: Any, rng: torch.Generator) -> list[Row]:
        """Read the example and what is to be written."""
        if not "".join(example.references[:1]).strip():
            raise ValueError("an example has no reference to write: leave such examples out")
        row = reader.read(example.document, example.question)
        target = reader.tokenizer(text_target=example.references[0], verbose=False)["input_ids"]
        return [{**row, "labels": torch.tensor(target, dtype=torch.long)}]


def end_id(reader: Reader) -> int:
    """Id of the token that ends what is written: `</s>` or, in BERT's vocabulary, `[SEP]`."""
    for token_id in (reader.tokenizer.eos_token_id, reader.tokenizer.sep_token_id):
        if token_id is not None:
            return token_id
    raise ValueError("the tokenizer has no token for the end of what is written: give it one")


def _ended(labels: Tensor, longest: int | None, end_id: int) -> Tensor:
    """Labels within the limit, the last of which is the end."""
    labels = labels if longest is None else labels[:longest]
    if len(labels) and labels[-1] == end_id:
        return labels
    labels = labels if longest is None else labels[: longest - 1]
    return torch.cat([labels, labels.new_tensor([end_id])])
