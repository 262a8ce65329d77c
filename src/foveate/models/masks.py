"""What attention is given in place of transformers' masks of all pairs."""

from functools import cached_property
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers.masking_utils import eager_mask

from foveate.models.packing import PackedSequences


class PaddingMask:
    """The real keys of a batch, passed to attention in place of a mask of all pairs.

    Args:
        arguments: The arguments of a mask function of transformers.

    Attributes:
        batch: Number of sequences.
        length: Number of keys.
        past: Number of keys before the first query.
    """

    def __init__(self, arguments: dict[str, Any]) -> None:
        past = arguments["q_offset"]
        self.past = (
            past.clone() if isinstance(past, Tensor) else past
        )  # static caches change theirs
        self._arguments = arguments | {"q_offset": self.past}
        self.batch, self.length = arguments["batch_size"], arguments["kv_length"]

    @cached_property
    def real(self) -> Tensor | None:
        """`(batch, length)` bool, None where all keys are real."""
        mask = self._arguments["attention_mask"]
        if mask is None:
            return None
        mask = mask[:, self._arguments["kv_offset"] :]
        return F.pad(mask, (0, self.length - mask.shape[1]))  # a static cache has unused entries

    @cached_property
    def packed(self) -> PackedSequences:
        """The real tokens, packed."""
        return PackedSequences.from_mask(self.real, (self.batch, self.length))

    @cached_property
    def key_bias(self) -> Tensor | None:
        """`(batch, length)`, -inf at padding and 0 elsewhere, None where all keys are real."""
        return None if self.real is None else mask_to_bias(self.real)

    @cached_property
    def dense(self) -> Tensor | None:
        """The mask of all pairs that transformers' eager attention takes."""
        mask: Tensor | None = eager_mask(**self._arguments)
        return mask


def mask_to_bias(mask: Tensor) -> Tensor:
    """Turn a mask into a bias on the scores of keys: -inf where it is 0, and 0 elsewhere."""
    return torch.zeros(mask.shape, device=mask.device).masked_fill(mask == 0, -torch.inf)


def padding_mask(**arguments: Any) -> PaddingMask:
    """Build a `PaddingMask`; registered in place of a mask function of transformers."""
    return PaddingMask(arguments)
