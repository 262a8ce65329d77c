"""Masked language modelling: some tokens are hidden, and to be found from the rest."""

import torch

from foveate.preprocessing.collate import IGNORE_INDEX

from .rows import Row


def mask_tokens(
    row: Row, *, ratio: float, mask_id: int, vocabulary: int, rng: torch.Generator
) -> Row:
    """Hide tokens of a row as BERT does; anchors and special tokens never.

    Of the hidden tokens, 80 % become the mask, 10 % a random token, and 10 % stay as they are.

    Args:
        row: with `input_ids` and `special_tokens_mask`.
        ratio: share of tokens to hide, at least one of them (HDT, 4.2: 0.15; VCC, 6.6.1:
            0.075).
        mask_id: id of the mask token.
        vocabulary: number of ids, from which random ones are drawn.
        rng: what decides.

    Returns:
        The row with its `input_ids` changed, and `labels`: the id where one is hidden, else -100.
        Where a row has a `vip_mask`, what is hidden becomes its VIP tokens.

    Raises:
        ValueError: there is nothing but anchors and special tokens.

    Example:
        >>> import torch
        >>> row = {"input_ids": torch.arange(9), "special_tokens_mask": torch.eye(9).long()[0]}
        >>> masked = mask_tokens(
        ...     row, ratio=0.5, mask_id=99, vocabulary=100, rng=torch.Generator().manual_seed(0)
        ... )
        >>> int((masked["labels"] != -100).sum()), int(masked["input_ids"][0])
        (4, 0)
    """
    ids = row["input_ids"]
    tokens = (row["special_tokens_mask"] == 0).nonzero()[:, 0]
    if not len(tokens):
        raise ValueError("a row without tokens has nothing to mask: leave such documents out")
    number = max(1, round(ratio * len(tokens)))
    hidden = tokens[torch.randperm(len(tokens), generator=rng)[:number]]
    labels = torch.full_like(ids, IGNORE_INDEX)
    labels[hidden] = ids[hidden]
    fate = torch.rand(number, generator=rng)
    random = torch.randint(vocabulary, (number,), generator=rng)
    kept = torch.where(fate < 0.9, random, ids[hidden])
    ids = ids.clone()
    ids[hidden] = torch.where(fate < 0.8, mask_id, kept)
    changed = {**row, "input_ids": ids, "labels": labels}
    if "vip_mask" in row:
        changed["vip_mask"] = (labels != IGNORE_INDEX).long()
    return changed
