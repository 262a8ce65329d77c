"""The summaries of LongT5's transient-global attention: sums over blocks of tokens."""

from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from foveate.models.padding import Packed

from .spans import spans


@dataclass(frozen=True)
class Summaries:
    """Which tokens of a batch are summed.

    LongT5 cuts a row, with its padding, into blocks. It has as many summaries as there are blocks
    that end in a real token; each is the sum of one block, but the last is that of all blocks from
    there on. So padding on the right changes nothing, and padding on the left makes blocks go
    together that else would not.

    Attributes:
        packed: where the rows of the sequences stand.
        hidden: `(tokens,)` bool, padding between real tokens, None where there is none.
        block: tokens in a block.
        padding: `(batch, length)` bool, None where there is none.
        lengths: summaries of each sequence, host integers.
        first: `(summaries,)`, the block of the padded batch that each begins with, None where every
            block is one.
        more: blocks that go to a summary besides.
        into: the summaries that they go to.
        positions: `(tokens,)`, the summary that each row stands at.
    """

    packed: Packed
    hidden: Tensor | None
    block: int
    padding: Tensor | None
    lengths: list[int]
    first: Tensor | None
    more: Tensor
    into: Tensor
    positions: Tensor

    @classmethod
    def of(cls, real: Tensor, block: int) -> "Summaries":
        """Find them by the mask of a batch `(batch, length)` bool."""
        batch, length = real.shape
        column = torch.arange(length, device=real.device).expand(real.shape)
        ends = real[:, block - 1 :: block].sum(1)
        positions = torch.minimum(column // block, ends[:, None] - 1)
        stops = torch.where(real, column // block + 1, 0).amax(1)
        lengths: list[int] = []
        first: list[int] = []
        more: list[int] = []
        into: list[int] = []
        of_row = -(-length // block)
        for row, (count, stop) in enumerate(torch.stack([ends, stops], 1).tolist()):
            if stop:
                blocks = range(row * of_row, row * of_row + stop)
                first += blocks[:count]
                more += blocks[count:] if count else ()
                into += [len(first) - 1] * (len(more) - len(into))
                lengths.append(count)
        packed, hidden = spans(real, (batch, length))
        is_full = sum(packed.lengths) == real.numel() and hidden is None
        every = len(first) == batch * of_row
        to_device = partial(torch.tensor, dtype=torch.long, device=real.device)
        return cls(
            packed=packed,
            hidden=hidden,
            block=block,
            padding=None if is_full else ~real,
            lengths=lengths,
            first=None if every else to_device(first),
            more=to_device(more),
            into=to_device(into),
            positions=packed.pack(positions),
        )

    def sum(self, hidden_states: Tensor) -> Tensor:
        """Sums `(summaries, d_model)` of `(batch, length, d_model)`, in float32 at least."""
        if self.padding is not None:
            hidden_states = hidden_states.masked_fill(self.padding[..., None], 0)
        if lacking := -hidden_states.shape[1] % self.block:
            hidden_states = F.pad(hidden_states, (0, 0, 0, lacking))
        precise = torch.promote_types(hidden_states.dtype, torch.float32)
        sums = hidden_states.unflatten(1, (-1, self.block)).sum(2, dtype=precise).flatten(0, 1)
        if self.first is None:
            return sums
        summaries = sums.index_select(0, self.first)
        if len(self.more) == 0:
            return summaries
        return summaries.index_put((self.into,), sums.index_select(0, self.more), accumulate=True)
