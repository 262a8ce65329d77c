"""Collation of tokenized examples into a batch: padded, or packed into one sequence."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from foveate.ops.tree_attention import Tree

IGNORE_INDEX = -100
"""Label that a loss ignores."""

Features = dict[str, Tensor]
"""One tokenized example: int64 columns `(tokens,)`, such as `input_ids`; labels of any length, or
single values."""

_PADDING = {
    "anchor_ids": -1,
    "anchor_kinds": -1,
    "anchor_parents": -1,
    "labels": IGNORE_INDEX,
    "node_types": -1,
    "paragraph_labels": IGNORE_INDEX,
    "parent_ids": -1,
    "sentence_ids": -1,
    "sentence_labels": IGNORE_INDEX,
    "special_tokens_mask": 1,
}
"""Padding of the columns that are not padded with 0; `input_ids` take the padding token."""


def pad_features(features: Sequence[Mapping[str, Any]], pad_token_id: int) -> Features:
    """Pad examples of different lengths on the right.

    Args:
        features: Columns as tensors or lists, the same for every example. An `attention_mask` is
            added where it is missing.
        pad_token_id: Padding of `input_ids`.

    Returns:
        Columns `(batch, longest)`, padded with -100 in labels, -1 in `parent_ids`, `node_types`,
        `sentence_ids` and those of anchors, 1 in `special_tokens_mask` and 0 elsewhere; single
        values `(batch,)`.

    Raises:
        ValueError: There are no examples.
    """
    if not features:
        raise ValueError("there is nothing to encode: give at least one document")
    padding = {**_PADDING, "input_ids": pad_token_id}
    masked = [
        {"attention_mask": torch.ones(len(example["input_ids"]), dtype=torch.long), **example}
        for example in features
    ]
    batch: Features = {}
    for name in masked[0]:
        columns = [torch.as_tensor(example[name]) for example in masked]
        if columns[0].dim():
            batch[name] = pad_sequence(columns, True, padding.get(name, 0))
        else:
            batch[name] = torch.stack(columns)
    return batch


def pack_trees(
    features: Sequence[Features], columns: Sequence[str] = ("input_ids",)
) -> dict[str, Any]:
    """Concatenate trees into one sequence, a forest in level order, which needs no padding.

    Args:
        features: Trees with `parent_ids` `(nodes,)`.
        columns: Names of the other columns to concatenate.

    Returns:
        The columns `(1, nodes of all trees)`, and their `tree`.

    Raises:
        ValueError: Parents do not form a forest.
    """
    offset = 0
    parents = []
    for one in features:
        parent_ids = one["parent_ids"]
        parents.append(torch.where(parent_ids < 0, -1, parent_ids + offset))
        offset += len(parent_ids)
    tree = Tree.from_parents(torch.cat(parents))
    packed = {
        name: tree.to_level_order(torch.cat([one[name] for one in features]))[None]
        for name in columns
    }
    return {**packed, "tree": tree.in_level_order}


def pack_passages(features: Sequence[Features]) -> Features:
    """Concatenate inputs of a TreeBert into one row, which needs no padding.

    Args:
        features: The columns of `foveate.preprocessing.tree.passage_columns`.

    Returns:
        The same columns, `(1, all tokens)` and `(1, all anchors)`.
    """
    offset = 0
    shifted = []
    for one in features:
        indices = {
            name: torch.where(one[name] < 0, -1, one[name] + offset)
            for name in ("anchor_ids", "anchor_parents")
        }
        shifted.append({**one, **indices})
        offset += len(one["anchor_kinds"])
    return {name: torch.cat([one[name] for one in shifted])[None] for name in shifted[0]}


def fill_packs(order: Iterable[int], lengths: Sequence[int], budget: int) -> Iterator[list[int]]:
    """Group indices, in order, into packs whose lengths add up to at most the budget.

    Example:
        >>> list(fill_packs([0, 1, 2, 3], [4, 5, 20, 1], budget=10))
        [[0, 1], [2], [3]]
    """
    pack: list[int] = []
    total = 0
    for index in order:
        if pack and total + lengths[index] > budget:
            yield pack
            pack, total = [], 0
        pack.append(index)
        total += lengths[index]
    if pack:
        yield pack
