"""Padded batches to packed rows and back, and what transformers' masks become."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers.masking_utils import eager_mask


class Places:
    """Where packed rows stand in a padded batch.

    Attributes:
        rows: `(tokens,)`, which row of the flattened batch stands at each packed row, None where
            they are the same.
        shape: `(batch, length)` of the padded batch.
    """

    rows: Tensor | None
    shape: tuple[int, int]

    def pack(self, padded: Tensor) -> Tensor:
        """`(batch, length, ...)` to `(tokens, ...)`."""
        rows = padded.flatten(0, 1)
        return rows if self.rows is None else rows.index_select(0, self.rows)

    def unpack(self, packed: Tensor) -> Tensor:
        """`(tokens, ...)` to `(batch, length, ...)`, zero at padding."""
        if self.rows is not None:
            batch, length = self.shape
            if len(self.rows) == batch * length:
                packed = _Scatter.apply(packed, self.rows)
            else:
                padded = packed.new_zeros(batch * length, *packed.shape[1:])
                packed = padded.index_copy_(0, self.rows, packed)
        return packed.unflatten(0, self.shape)


class _Scatter(torch.autograd.Function):
    """Row i to row `rows[i]` of a permutation: by gathers, several times faster than scatters."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, rows: Tensor) -> Tensor:
        ctx.save_for_backward(rows)
        places = torch.arange(len(rows), device=rows.device)
        return x.index_select(0, torch.empty_like(rows).scatter_(0, rows, places))

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return grad.index_select(0, ctx.saved_tensors[0]), None


@dataclass(frozen=True)
class Packed(Places):
    """Where the real tokens of a padded batch stand.

    Attributes:
        lengths: real tokens of each sequence that has any, host integers.
        rows: `(tokens,)`, which row of the flattened batch stands at each packed row, None where
            all of them are real.
        has_gaps: whether padding stands between real tokens of a sequence.
        shape: `(batch, length)` of the padded batch.
    """

    lengths: list[int]
    rows: Tensor | None
    has_gaps: bool
    shape: tuple[int, int]

    @classmethod
    def of(cls, real: Tensor | None, shape: tuple[int, int]) -> "Packed":
        """Pack a batch `(batch, length)` by its mask; all of it is real where that is None.

        Raises:
            ValueError: a mask of another shape.
        """
        batch, length = shape
        if real is None:
            return cls([length] * batch if length else [], None, False, shape)
        if tuple(real.shape) != shape:
            raise ValueError(
                f"attention_mask must have the shape {shape} of the tokens, got {tuple(real.shape)}"
            )
        real = real.bool()
        column = torch.arange(length, device=real.device)
        first = torch.where(real, column, length).amin(1)
        last = torch.where(real, column, -1).amax(1)
        # The one time that the device is waited for.
        counts, spans = torch.stack([real.sum(1), last - first + 1]).tolist()
        lengths = [count for count in counts if count]
        if sum(lengths) == batch * length:
            return cls(lengths, None, False, shape)
        rows = torch.nonzero_static(real.flatten(), size=sum(lengths))[:, 0]
        has_gaps = any(count < span for count, span in zip(counts, spans, strict=True))
        return cls(lengths, rows, has_gaps, shape)

    @property
    def columns(self) -> Tensor | None:
        """Places `(tokens,)` of the real tokens in their sequences, None where those are 0, 1, …

        Padding on the left shifts all places of a sequence alike, which no distance notices.
        """
        return self.rows % self.shape[1] if self.rows is not None and self.has_gaps else None


class Padding:
    """Which keys of a batch are real: what modules get in place of a mask of all pairs.

    Args:
        arguments: those of a mask function of transformers.
    """

    def __init__(self, arguments: dict[str, Any]) -> None:
        self._arguments = arguments
        self.batch, self.length = arguments["batch_size"], arguments["kv_length"]

    @cached_property
    def real(self) -> Tensor | None:
        """`(batch, length)` bool, None where all keys are real."""
        mask = self._arguments["attention_mask"]
        if mask is None:
            return None
        mask = mask[:, self._arguments["kv_offset"] :]
        return F.pad(mask, (0, self.length - mask.shape[1]))  # a static cache is longer than filled

    @cached_property
    def packed(self) -> Packed:
        """The real tokens, packed."""
        return Packed.of(self.real, (self.batch, self.length))

    @cached_property
    def key_bias(self) -> Tensor | None:
        """`(batch, length)`, -inf at padding and 0 elsewhere, None where all keys are real."""
        return None if self.real is None else hiding(self.real)

    @cached_property
    def dense(self) -> Tensor | None:
        """The mask of all pairs that transformers' own eager attention takes."""
        mask: Tensor | None = eager_mask(**self._arguments)
        return mask


def hiding(mask: Tensor) -> Tensor:
    """-inf where a mask is 0, and 0 elsewhere: what is added to the scores of keys."""
    return torch.zeros(mask.shape, device=mask.device).masked_fill(mask == 0, -torch.inf)


def padding(**arguments: Any) -> Padding:
    """Take the place of transformers' mask functions."""
    return Padding(arguments)
