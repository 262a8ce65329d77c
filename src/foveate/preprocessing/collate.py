"""Rows of different lengths as a batch."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.nn.utils.rnn import pad_sequence
from transformers import BatchEncoding, PreTrainedTokenizerBase

IGNORE_INDEX = -100
"""Label of tokens that a loss leaves out."""


def pad_features(
    tokenizer: PreTrainedTokenizerBase, rows: Sequence[Mapping[str, Any]]
) -> BatchEncoding:
    """Collate rows: what a `Trainer` takes as `data_collator`.

    Returns:
        int64 tensors `(rows, longest)`, padded on the right: with the padding token, 0 in the
        masks, -100 in the labels.

    Raises:
        ValueError: there are no rows.
    """
    if not rows:
        raise ValueError("there is nothing to encode: give one document or several")
    padding = {"input_ids": tokenizer.pad_token_id or 0, "labels": IGNORE_INDEX}
    return BatchEncoding(
        {
            name: pad_sequence(
                [torch.as_tensor(row[name]) for row in rows], True, padding.get(name, 0)
            )
            for name in rows[0]
        }
    )
