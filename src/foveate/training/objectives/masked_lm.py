"""Masked language modelling: masked tokens are predicted from the others."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import transformers

from foveate.data.example import Example
from foveate.preprocessing import IGNORE_INDEX, DocumentProcessor, Features, pack_trees

from .base import Objective


@dataclass(frozen=True)
class MaskedLM(Objective):
    """Predict masked tokens (HDT, 4.2; VCC, 6.6.1).

    Args:
        ratio: Share of the tokens to mask; anchors are never masked.
        clustered: Whether masked tokens lie in clusters, as in the published pretraining of VCC.
    """

    auto_class = transformers.AutoModelForMaskedLM

    ratio: float = 0.15
    clustered: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.ratio < 1:
            raise ValueError(f"ratio must be between 0 and 1, got {self.ratio}")

    def features(
        self, processor: DocumentProcessor, example: Example, generator: torch.Generator
    ) -> list[Features]:
        """Tokenize the document and mask some of its tokens."""
        tokenizer = processor.tokenizer
        if tokenizer.mask_token_id is None:
            raise ValueError(
                "the tokenizer has no mask token: add one, or choose another objective"
            )
        return [
            mask_tokens(
                processor.document_features(example.document),
                ratio=self.ratio,
                mask_token_id=tokenizer.mask_token_id,
                vocab_size=len(tokenizer),
                generator=generator,
                clustered=self.clustered,
            )
        ]

    def collate(self, processor: DocumentProcessor, features: Sequence[Features]) -> dict[str, Any]:
        """Pack trees into one sequence; pad other features."""
        if "parent_ids" in features[0]:
            return pack_trees(features, ("input_ids", "labels"))
        return super().collate(processor, features)


def mask_tokens(
    features: Features,
    *,
    ratio: float,
    mask_token_id: int,
    vocab_size: int,
    generator: torch.Generator,
    clustered: bool = False,
) -> Features:
    """Mask tokens as BERT does, but never anchors or special tokens.

    Of the masked tokens, 80 % become the mask token, 10 % a random token, and 10 % stay unchanged.

    Args:
        features: Features with `input_ids` and `special_tokens_mask`.
        ratio: Share of the tokens to mask, at least one of them (HDT, 4.2: 0.15; VCC, 6.6.1:
            0.075).
        mask_token_id: Id of the mask token.
        vocab_size: Number of ids from which random ones are drawn.
        generator: Decides which tokens are masked, and how.
        clustered: Whether they lie in 4 to 16 clusters: a token's probability is then a mixture of
            as many normal densities, with a standard deviation of 32 to 64 tokens. These are the
            published numbers for sequences of 4,096 tokens.

    Returns:
        The features with changed `input_ids`, and `labels`: the original id of masked tokens, else
        -100. If there is a `vip_mask`, the masked tokens become the VIP tokens.

    Raises:
        ValueError: There are only anchors and special tokens.

    Example:
        >>> import torch
        >>> features = {
        ...     "input_ids": torch.arange(9),
        ...     "special_tokens_mask": torch.eye(9, dtype=torch.long)[0],
        ... }
        >>> masked = mask_tokens(
        ...     features,
        ...     ratio=0.5,
        ...     mask_token_id=99,
        ...     vocab_size=100,
        ...     generator=torch.Generator().manual_seed(0),
        ... )
        >>> int((masked["labels"] != -100).sum()), int(masked["input_ids"][0])
        (4, 0)
    """
    input_ids = features["input_ids"]
    candidates = (features["special_tokens_mask"] == 0).nonzero()[:, 0]
    if not len(candidates):
        raise ValueError("the document has no token to mask: leave such documents out")
    num_masked = max(1, round(ratio * len(candidates)))
    chances = torch.ones(len(candidates))
    if clustered:
        num_clusters = int(torch.randint(4, 17, (1,), generator=generator))
        width = 32 + 32 * torch.rand(1, generator=generator)
        centers = torch.randint(len(candidates), (num_clusters,), generator=generator)
        distances = torch.arange(len(candidates))[:, None] - centers
        chances = (-((distances / width) ** 2) / 2).exp().mean(1) + 1e-6
    masked = candidates[torch.multinomial(chances, num_masked, generator=generator)]
    labels = torch.full_like(input_ids, IGNORE_INDEX)
    labels[masked] = input_ids[masked]
    draws = torch.rand(num_masked, generator=generator)
    random_ids = torch.randint(vocab_size, (num_masked,), generator=generator)
    unmasked = torch.where(draws < 0.9, random_ids, input_ids[masked])
    input_ids = input_ids.clone()
    input_ids[masked] = torch.where(draws < 0.8, mask_token_id, unmasked)
    changed = {**features, "input_ids": input_ids, "labels": labels}
    if "vip_mask" in features:
        changed["vip_mask"] = (labels != IGNORE_INDEX).long()
    return changed
