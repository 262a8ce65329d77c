"""The summaries of LongT5's transient-global attention: sums over blocks of tokens."""

from dataclasses import dataclass

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
        first: `(summaries,)`, the block of the padded batch that each begins with.
        more: blocks that go to a summary besides.
        into: the summaries that they go to.
        positions: `(tokens,)`, the summary that each row stands at.
    """

    packed: Packed
    hidden: Tensor | None
    block: int
    padding: Tensor | None
    lengths: list[int]
    first: Tensor
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
        return cls(
            packed=packed,
            hidden=hidden,
            block=block,
            padding=None if is_full else ~real,
            lengths=lengths,
            first=torch.tensor(first, dtype=torch.long, device=real.device),
            more=torch.tensor(more, dtype=torch.long, device=real.device),
            into=torch.tensor(into, dtype=torch.long, device=real.device),
            positions=packed.pack(positions),
        )

    def sum(self, hidden_states: Tensor) -> Tensor:
        """Sums `(summaries, d_model)` of `(batch, length, d_model)`, in float32 at least."""
        if self.padding is not None:
            hidden_states = hidden_states.masked_fill(self.padding[..., None], 0)
        blocks = F.pad(hidden_states, (0, 0, 0, -hidden_states.shape[1] % self.block))
        precise = torch.promote_types(hidden_states.dtype, torch.float32)
        sums = blocks.unflatten(1, (-1, self.block)).sum(2, dtype=precise).flatten(0, 1)
        summaries = sums.index_select(0, self.first)
        if len(self.more) == 0:
            return summaries
        return summaries.index_put((self.into,), sums.index_select(0, self.more), accumulate=True)
