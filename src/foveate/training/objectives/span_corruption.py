"""Span corruption (T5) and the mixture of denoisers (UL2), which keep the document's structure."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, Literal

import torch
from torch import Tensor

from foveate.data.example import Example
from foveate.preprocessing import DocumentProcessor, Features
from foveate.training.tokenizer import MODE_TOKENS, SENTINELS

from .seq2seq import Seq2SeqObjective


@dataclass(frozen=True)
class Denoiser:
    """How much of a document is masked, and where.

    Attributes:
        mode: UL2's mode: "R" masks few tokens in short spans, "X" many tokens or long spans, "S"
            the end of the document.
        noise_density: Share of the tokens to mask.
        mean_span_length: Mean length of the spans in tokens; "S" masks a single span.
        further_spans: `(noise_density, mean_span_length)` of spans that are masked, too.
    """

    mode: Literal["R", "S", "X"]
    noise_density: float
    mean_span_length: float = 0.0
    further_spans: tuple[tuple[float, float], ...] = ()


T5 = Denoiser("R", 0.15, 3)
"""The objective of T5."""

UL2 = (Denoiser("R", 0.15, 3), Denoiser("S", 0.5), Denoiser("X", 0.5, 32, ((0.2, 64),)))
"""The denoisers with which HDT-ED was pretrained."""

UL2_SHARES = (0.25, 0.5, 0.25)
"""How likely each of them is."""


@dataclass(frozen=True)
class SpanCorruption(Seq2SeqObjective):
    """Generate masked spans, as in T5's pretraining (VCC, 6.6.1).

    Args:
        max_target_length: See `Seq2SeqObjective`.
        noise_density: Share of the tokens to mask.
        mean_span_length: Mean length of the spans in tokens.
    """

    noise_density: float = T5.noise_density
    mean_span_length: float = T5.mean_span_length

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.noise_density < 1:
            raise ValueError(f"noise_density must be between 0 and 1, got {self.noise_density}")
        if self.mean_span_length < 1:
            raise ValueError(f"mean_span_length must be at least 1, got {self.mean_span_length}")

    def features(
        self, processor: DocumentProcessor, example: Example, generator: torch.Generator
    ) -> list[Features]:
        """Tokenize the document and mask spans of it."""
        denoiser = Denoiser("R", self.noise_density, self.mean_span_length)
        return [_corrupted_features(self, processor, example, denoiser, generator)]


@dataclass(frozen=True)
class MixtureOfDenoisers(Seq2SeqObjective):
    """Denoise in one of UL2's three ways, announced by a mode token (HDT, 4.2)."""

    def features(
        self, processor: DocumentProcessor, example: Example, generator: torch.Generator
    ) -> list[Features]:
        """Tokenize the document and apply one of the denoisers to it."""
        denoiser = UL2[int(torch.tensor(UL2_SHARES).multinomial(1, generator=generator))]
        mode_id = _token_id(processor, MODE_TOKENS[denoiser.mode], "mode token")
        features = _corrupted_features(self, processor, example, denoiser, generator)
        labels = features.pop("labels")
        return [{**add_mode_token(features, mode_id), "labels": labels}]


def corrupt_spans(
    features: Features,
    denoiser: Denoiser,
    *,
    sentinel_ids: Sequence[int],
    end_token_id: int,
    generator: torch.Generator,
    max_target_length: int | None = None,
) -> Features:
    """Replace spans of tokens by sentinels, and make the spans the target.

    Anchors stay, so the tree is that of the document without the masked tokens. A span may extend
    over several sentences: its sentinel then stands in each of them, and once in the labels. Only
    the end of a document (mode "S") is masked along with its anchors.

    Args:
        features: Features with `input_ids`, `special_tokens_mask` and, for a tree, `parent_ids`.
        denoiser: How much to mask, and where.
        sentinel_ids: Ids that stand for the spans, in order. They repeat if there are more spans.
        end_token_id: Id with which the labels end.
        generator: Decides which spans are masked.
        max_target_length: Longest target in tokens: the end of a document (mode "S") begins so late
            that it fits, None for no limit.

    Returns:
        The columns `(tokens,)` of the remaining tokens, and `labels`: for each span, its sentinel
        and its tokens, followed by the end. If there is a `vip_mask`, the sentinels become the VIP
        tokens.

    Raises:
        ValueError: There are fewer than two tokens to mask.
    """
    maskable = features["special_tokens_mask"] == 0
    candidates = maskable.nonzero()[:, 0]
    if len(candidates) < 2:
        raise ValueError(
            "the document has fewer than two tokens, too few for a span: leave such documents out"
        )
    masked = torch.zeros_like(maskable)
    if denoiser.mode == "S":
        num_kept = round((1 - denoiser.noise_density) * len(candidates))
        if max_target_length is not None:  # which also holds a sentinel and the end
            num_kept = max(num_kept, len(candidates) - max_target_length + 2)
        num_kept = min(max(num_kept, 1), len(candidates) - 1)
        # The end of a tree is masked with its anchors; special tokens that end plain text stay.
        masked[candidates[num_kept] :] = True
        if "parent_ids" not in features:
            masked &= maskable
    else:
        spans = (denoiser.noise_density, denoiser.mean_span_length), *denoiser.further_spans
        for density, mean_length in spans:
            in_span = random_spans_mask(len(candidates), density, mean_length, generator)
            masked[candidates[in_span]] = True
    return _replace_spans(features, masked, maskable, torch.tensor(sentinel_ids), end_token_id)


def random_spans_mask(
    length: int, noise_density: float, mean_span_length: float, generator: torch.Generator
) -> Tensor:
    """Draw the random spans of T5.

    Masked and unmasked spans alternate, beginning with an unmasked one. Their lengths are random
    parts of the respective totals, each at least 1.

    Returns:
        `(length,)` bool, true in masked spans.
    """
    num_masked = min(max(round(length * noise_density), 1), length - 1)
    num_spans = min(max(round(num_masked / mean_span_length), 1), num_masked, length - num_masked)
    unmasked_lengths = _random_parts(length - num_masked, num_spans, generator)
    masked_lengths = _random_parts(num_masked, num_spans, generator)
    lengths = torch.stack([unmasked_lengths, masked_lengths], dim=1).flatten()
    return (torch.arange(2 * num_spans) % 2 == 1).repeat_interleave(lengths)


def add_mode_token(features: Features, mode_id: int) -> Features:
    """Insert a mode token: under the root of a tree, before the sections, or before plain text."""
    position = 1 if "parent_ids" in features else 0
    inserted = {
        "input_ids": mode_id,
        "attention_mask": 1,
        "special_tokens_mask": 1,
        "parent_ids": 0,
        "global_attention_mask": 1,
        "vip_mask": 1,
        "token_type_ids": 0,
    }
    columns = {name: column for name, column in features.items() if name in inserted}
    if "parent_ids" in columns:
        parent_ids = columns["parent_ids"]
        columns["parent_ids"] = torch.where(parent_ids >= position, parent_ids + 1, parent_ids)
    return {
        name: torch.cat([column[:position], column.new_tensor([inserted[name]]), column[position:]])
        for name, column in columns.items()
    }


def _corrupted_features(
    objective: Seq2SeqObjective,
    processor: DocumentProcessor,
    example: Example,
    denoiser: Denoiser,
    generator: torch.Generator,
) -> Features:
    features = corrupt_spans(
        processor.document_features(example.document),
        denoiser,
        sentinel_ids=_sentinel_ids(processor),
        end_token_id=processor.end_token_id,
        generator=generator,
        max_target_length=objective.max_target_length,
    )
    features["labels"] = processor.end_labels(features["labels"], objective.max_target_length)
    return features


def _random_parts(total: int, num_parts: int, generator: torch.Generator) -> Tensor:
    """Split a total into random parts `(num_parts,)` of at least 1."""
    cuts = torch.randperm(total - 1, generator=generator)[: num_parts - 1].sort().values + 1
    return torch.diff(cuts, prepend=torch.tensor([0]), append=torch.tensor([total]))


def _replace_spans(
    features: Features, masked: Tensor, maskable: Tensor, sentinel_ids: Tensor, end_token_id: int
) -> Features:
    """Replace masked spans by their sentinels; anchors in them are dropped, not generated."""
    # Among the tokens alone, where anchors do not interrupt a span.
    in_span = masked[maskable]
    span_starts = _starts(in_span)
    sentinels = sentinel_ids[(span_starts.cumsum(0) - 1).clamp(min=0) % len(sentinel_ids)]

    starts_span = span_starts[in_span].long()
    positions = torch.arange(len(starts_span)) + starts_span.cumsum(0)
    labels = torch.full((len(starts_span) + int(starts_span.sum()) + 1,), end_token_id)
    labels[positions] = features["input_ids"][masked & maskable]
    labels[positions[starts_span == 1] - 1] = sentinels[span_starts]

    replaced = _starts(masked)  # in every sentence that a span extends over
    input_ids = features["input_ids"].clone()
    input_ids[replaced] = sentinels[replaced[maskable]]
    kept = ~masked | replaced
    remaining = {
        name: column[kept] for name, column in {**features, "input_ids": input_ids}.items()
    }
    if "vip_mask" in remaining:
        remaining["vip_mask"] = replaced[kept].long()
    if "parent_ids" in remaining:
        new_indices = kept.cumsum(0) - 1
        parent_ids = remaining["parent_ids"]
        remaining["parent_ids"] = torch.where(parent_ids < 0, -1, new_indices[parent_ids])
    return {**remaining, "labels": labels}


def _starts(mask: Tensor) -> Tensor:
    """Return where runs of true begin in a mask `(length,)`."""
    starts = mask & ~mask.roll(1)
    starts[0] = mask[0]
    return starts


def _sentinel_ids(processor: DocumentProcessor) -> list[int]:
    """Return the ids of the sentinels that a vocabulary has, at least one, in their order."""
    first = _token_id(processor, SENTINELS[0], "sentinel")
    others: Any = processor.tokenizer.convert_tokens_to_ids(list(SENTINELS[1:]))
    unknown = (None, processor.tokenizer.unk_token_id)
    return [first, *takewhile(lambda token_id: token_id not in unknown, others)]


def _token_id(processor: DocumentProcessor, token: str, what: str) -> int:
    token_id = processor.tokenizer.convert_tokens_to_ids(token)
    if not isinstance(token_id, int) or token_id == processor.tokenizer.unk_token_id:
        raise ValueError(f"the tokenizer has no {what} {token!r}: add it")
    return token_id
