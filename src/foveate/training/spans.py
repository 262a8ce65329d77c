"""Span corruption (T5) and the mixture of denoisers (UL2), with the structure of documents kept."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from .rows import Row


@dataclass(frozen=True)
class Denoiser:
    """How much is hidden, and how.

    Attributes:
        mode: of UL2: "R" hides short spans and few tokens, "X" long ones or many, "S" the end.
        density: share of the tokens that are hidden.
        mean_span: mean length of a span, where it is not the end.
    """

    mode: Literal["R", "S", "X"]
    density: float
    mean_span: float = 0.0


T5 = Denoiser("R", 0.15, 3)
"""The one objective of T5."""

UL2 = (
    Denoiser("R", 0.15, 3),
    Denoiser("R", 0.15, 8),
    Denoiser("S", 0.25),
    Denoiser("X", 0.5, 3),
    Denoiser("X", 0.5, 8),
    Denoiser("X", 0.15, 64),
    Denoiser("X", 0.5, 64),
)
"""UL2's seven denoisers, each as likely."""


def denoise(
    row: Row, denoiser: Denoiser, *, sentinels: Sequence[int], end_id: int, rng: torch.Generator
) -> Row:
    """Hide spans of a row's tokens, each behind a sentinel, for the decoder to write.

    Anchors stay, and a span ends with its sentence, so the tree is that of the document without
    the hidden tokens; only the end of a document (mode "S") is hidden with its anchors.

    Args:
        row: with `input_ids`, `special_tokens_mask` and, if it is a tree, `parent_ids`.
        denoiser: what to hide.
        sentinels: ids that stand for spans, in their order, and again from the first where there
            are more spans.
        end_id: what the labels end with.
        rng: what decides.

    Returns:
        The columns of the row for what is left, and `labels`: for each span its sentinel and its
        tokens, then the end. Where a row has a `vip_mask`, sentinels become its VIP tokens.

    Raises:
        ValueError: fewer than two tokens.
    """
    free = row["special_tokens_mask"] == 0
    tokens = free.nonzero()[:, 0]
    if len(tokens) < 2:
        raise ValueError("a row of fewer than two tokens has no span: leave such documents out")
    hidden = torch.zeros_like(free)
    if denoiser.mode == "S":
        kept = min(max(round((1 - denoiser.density) * len(tokens)), 1), len(tokens) - 1)
        # The end of a tree goes with its anchors; special tokens at the end of plain text stay.
        hidden[tokens[kept] :] = True
        if "parent_ids" not in row:
            hidden &= free
    else:
        hidden[tokens[noise(len(tokens), denoiser.density, denoiser.mean_span, rng)]] = True
    return _hide(row, hidden, free, torch.tensor(sentinels), end_id)


def noise(length: int, density: float, mean_span: float, rng: torch.Generator) -> Tensor:
    """Draw T5's random spans: `(length,)` bool, true in them; the first token never is.

    Spans and what is between them are random parts of their totals, none empty.
    """
    number = min(max(round(length * density), 1), length - 1)
    spans = min(max(round(number / mean_span), 1), number, length - number)
    sizes = torch.stack([_parts(length - number, spans, rng), _parts(number, spans, rng)], dim=1)
    return (torch.arange(2 * spans) % 2 == 1).repeat_interleave(sizes.flatten())


def with_mode(row: Row, mode_id: int) -> Row:
    """Put a mode token first: under the root beside the sections, or before plain text."""
    place = 1 if "parent_ids" in row else 0
    new = {"input_ids": mode_id, "special_tokens_mask": 1, "parent_ids": 0}
    new |= {"attention_mask": 1, "vip_mask": 1}
    moved = dict(row)
    if "parent_ids" in row:
        parents = row["parent_ids"]
        moved["parent_ids"] = torch.where(parents >= place, parents + 1, parents)
    return {
        name: torch.cat([column[:place], column.new_tensor([new[name]]), column[place:]])
        if name in new
        else column
        for name, column in moved.items()
    }


def _parts(total: int, number: int, rng: torch.Generator) -> Tensor:
    """Cut a total into so many random parts of at least 1."""
    cuts = torch.randperm(total - 1, generator=rng)[: number - 1].sort().values + 1
    return torch.diff(cuts, prepend=torch.tensor([0]), append=torch.tensor([total]))


def _hide(row: Row, hidden: Tensor, free: Tensor, sentinels: Tensor, end_id: int) -> Row:
    starts = hidden & ~hidden.roll(1)
    starts[0] = hidden[0]
    names = sentinels[torch.arange(int(starts.sum())) % len(sentinels)]

    written = hidden & free
    begins = starts[written].long()
    place = torch.arange(len(begins)) + begins.cumsum(0)
    labels = torch.full((len(begins) + len(names) + 1,), end_id)
    labels[place] = row["input_ids"][written]
    labels[place[begins == 1] - 1] = names

    ids = row["input_ids"].clone()
    ids[starts] = names
    left = ~hidden | starts
    kept = {
        name: column[left] for name, column in {**row, "input_ids": ids}.items() if column.dim()
    }
    if "vip_mask" in kept:
        kept["vip_mask"] = starts[left].long()
    if "parent_ids" in kept:
        number = left.cumsum(0) - 1
        parents = kept["parent_ids"]
        kept["parent_ids"] = torch.where(parents < 0, -1, number[parents])
    return {**kept, "labels": labels}
