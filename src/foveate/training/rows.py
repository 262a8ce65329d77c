"""Rows of token ids, one a document, and how several become a batch."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from foveate.preprocessing.collate import IGNORE_INDEX

Row = dict[str, Tensor]
"""Columns `(nodes,)` of a document: `input_ids`, `special_tokens_mask` (1 at anchors and special
tokens), `parent_ids` if it is a tree; or single values and `labels` of any length."""


def forest(rows: Sequence[Row], columns: Sequence[str] = ("input_ids",)) -> Row:
    """Lay trees one after the other in one row, which needs no padding.

    Args:
        rows: trees with `parent_ids` `(nodes,)`.
        columns: what to lay likewise.

    Returns:
        `parent_ids` and the columns, `(1, nodes of all)`.
    """
    shift = 0
    parents = []
    for row in rows:
        own = row["parent_ids"]
        parents.append(torch.where(own < 0, -1, own + shift))
        shift += len(own)
    joined = {name: torch.cat([row[name] for row in rows])[None] for name in columns}
    return {**joined, "parent_ids": torch.cat(parents)[None]}


def pad(rows: Sequence[Row], padding_id: int) -> Row:
    """Lay rows below each other, padded on the right.

    Returns:
        Columns `(rows, longest)`, padded with the id of the padding token, -1 for parents, 1 in the
        special tokens mask, -100 for labels and 0 elsewhere; the `attention_mask`; and single
        values `(rows,)`.
    """
    padding = {"input_ids": padding_id, "parent_ids": -1, "special_tokens_mask": 1}
    padding["labels"] = IGNORE_INDEX
    rows = [{"attention_mask": torch.ones_like(row["input_ids"]), **row} for row in rows]
    batch = {}
    for name, first in rows[0].items():
        column = [row[name] for row in rows]
        if first.dim():
            batch[name] = pad_sequence(column, True, padding.get(name, 0))
        else:
            batch[name] = torch.stack(column)
    return batch
