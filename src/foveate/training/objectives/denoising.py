"""Objectives that hide tokens of a document: masked language modelling, T5's and UL2's."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import transformers

from foveate.training.masking import mask_tokens
from foveate.training.reading import Reader
from foveate.training.rows import Row, forest
from foveate.training.spans import T5, UL2, Denoiser, denoise, with_mode
from foveate.training.tokenizer import MODES, SENTINELS

from .base import Example, Objective
from .writing import Writing, end_id


@dataclass(frozen=True)
class MaskedLM(Objective):
    """Masked language modelling (HDT, 4.2; VCC, 6.6.1).

    Args:
        ratio: share of tokens that are hidden; anchors never are.
    """

    auto = transformers.AutoModelForMaskedLM

    ratio: float = 0.15

    def __post_init__(self) -> None:
        if not 0 < self.ratio < 1:
            raise ValueError(f"ratio must be between 0 and 1, got {self.ratio}")

    def rows(self, reader: Reader, example: Example, rng: torch.Generator) -> list[Row]:
        """Hide tokens of the document."""
        tokenizer = reader.tokenizer
        if tokenizer.mask_token_id is None:
            raise ValueError("the tokenizer has no mask token: give it one, or another objective")
        row = mask_tokens(
            reader.read(example.document, ""),
            ratio=self.ratio,
            mask_id=tokenizer.mask_token_id,
            vocabulary=len(tokenizer),
            rng=rng,
        )
        return [row]

    def collate(self, reader: Reader, rows: Sequence[Row]) -> Row:
        """Lay trees in one row; pad others."""
        if reader.tree:
            return forest(rows, ("input_ids", "labels"))
        return super().collate(reader, rows)


@dataclass(frozen=True)
class SpanCorruption(Writing):
    """T5's: spans are hidden, and to be written (VCC, 6.6.1).

    Args:
        density: share of tokens that are hidden.
        mean_span: mean length of a span.
    """

    density: float = T5.density
    mean_span: float = T5.mean_span

    def __post_init__(self) -> None:
        _check_denoiser(self.density, self.mean_span)

    def rows(self, reader: Reader, example: Example, rng: torch.Generator) -> list[Row]:
        """Hide spans of the document."""
        denoiser = Denoiser("R", self.density, self.mean_span)
        return [_denoised(reader, reader.read(example.document, ""), denoiser, rng)]


@dataclass(frozen=True)
class MixtureOfDenoisers(Writing):
    """UL2's: one of seven ways to hide, named by a mode token (HDT, 4.2)."""

    def rows(self, reader: Reader, example: Example, rng: torch.Generator) -> list[Row]:
        """Hide spans, or the end, of the document in one of the ways."""
        denoiser = UL2[int(torch.randint(len(UL2), (), generator=rng))]
        [mode] = _ids(reader, [MODES[denoiser.mode]], "mode token")
        row = _denoised(reader, reader.read(example.document, ""), denoiser, rng)
        labels = row.pop("labels")
        return [{**with_mode(row, mode), "labels": labels}]


def _denoised(reader: Reader, row: Row, denoiser: Denoiser, rng: torch.Generator) -> Row:
    sentinels = _ids(reader, SENTINELS, "sentinel")
    return denoise(row, denoiser, sentinels=sentinels, end_id=end_id(reader), rng=rng)


def _ids(reader: Reader, tokens: Sequence[str], what: str) -> list[int]:
    tokenizer = reader.tokenizer
    ids: Any = tokenizer.convert_tokens_to_ids(list(tokens))
    for token, id in zip(tokens, ids, strict=True):
        if id is None or id == tokenizer.unk_token_id:
            raise ValueError(f"the tokenizer has no {what} {token!r}: add it")
    return list(ids)


def _check_denoiser(density: float, mean_span: float) -> None:
    if not 0 < density < 1 or mean_span < 1:
        raise ValueError(
            "density must be between 0 and 1, and mean_span at least 1, "
            f"got {density} and {mean_span}"
        )
