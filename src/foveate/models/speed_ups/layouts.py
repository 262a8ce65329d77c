"""Layouts of the tokens of a padded batch: computed once, and passed to every layer."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils import _pytree as pytree

from foveate.models.packing import PackedSequences
from foveate.ops.precision import accumulation_dtype


@dataclass(frozen=True)
class PackedSpans:
    """The spans of a padded batch: each sequence from its first real token to its last.

    Windows are defined by position, so padding between real tokens stays in the span and is hidden.

    Attributes:
        packed: The tokens of the spans.
        is_padding: `(tokens,)` bool, the padding inside the spans; None where there is none.
    """

    packed: PackedSequences
    is_padding: Tensor | None

    @classmethod
    def from_mask(cls, real: Tensor | None, shape: tuple[int, int]) -> "PackedSpans":
        """Pack a batch by its mask `(batch, length)` bool; None where all tokens are real."""
        packed = PackedSequences.from_mask(real, shape)
        if real is None or not packed.has_gaps:
            return cls(packed, None)
        has_begun = real.cumsum(1) > 0
        goes_on = real.flip(1).cumsum(1).flip(1) > 0
        packed = PackedSequences.from_mask(has_begun & goes_on, shape)
        return cls(packed, packed.pack(~real))

    @classmethod
    def of_rows(cls, is_padding: Tensor) -> "PackedSpans":
        """Take the whole rows of a batch, so that all masks `(batch, length)` bool are alike."""
        batch, length = is_padding.shape
        packed = PackedSequences([length] * batch, None, False, (batch, length))
        return cls(packed, is_padding.flatten())


@dataclass(frozen=True)
class WindowLayout:
    """The layout of a batch for windows and global tokens, as in Longformer.

    Attributes:
        packed: The tokens of the spans.
        is_padding: `(tokens,)` bool, the padding inside the spans; None where there is none.
        hidden: `(tokens,)` bool, the keys that windows do not show: padding and global tokens.
        global_indices: `(global_tokens,)`, the packed indices of the global tokens.
        num_globals: Number of global tokens of each sequence that has real ones, host integers.
    """

    packed: PackedSequences
    is_padding: Tensor | None
    hidden: Tensor | None
    global_indices: Tensor
    num_globals: list[int]

    @classmethod
    def from_masks(cls, is_padding: Tensor, is_global: Tensor) -> "WindowLayout":
        """Lay out a batch by its masks, both `(batch, length)` bool."""
        batch, length = is_padding.shape
        num_globals, num_padding = torch.stack([is_global.sum(1), is_padding.sum(1)]).tolist()
        spans = PackedSpans.from_mask(~is_padding if any(num_padding) else None, (batch, length))
        packed, hidden = spans.packed, spans.is_padding
        global_indices = is_global.flatten().nonzero_static(size=sum(num_globals))[:, 0]
        if len(global_indices):
            packed_globals = packed.pack(is_global)
            hidden = packed_globals if hidden is None else packed_globals | hidden
            if packed.indices is not None:
                size = len(global_indices)
                global_indices = packed_globals.nonzero_static(size=size)[:, 0]
        num_globals = [
            count for count, n in zip(num_globals, num_padding, strict=True) if n < length
        ]
        return cls(packed, spans.is_padding, hidden, global_indices, num_globals)

    @classmethod
    def of_rows(cls, is_padding: Tensor, is_global: Tensor) -> "WindowLayout":
        """Take the whole rows of a batch: layouts differ in the numbers of global tokens alone."""
        num_globals: list[int] = is_global.sum(1).tolist()
        spans = PackedSpans.of_rows(is_padding)
        global_indices = is_global.flatten().nonzero_static(size=sum(num_globals))[:, 0]
        hidden = (is_padding | is_global).flatten()
        return cls(spans.packed, spans.is_padding, hidden, global_indices, num_globals)


@dataclass(frozen=True)
class BlockSummaries:
    """The layout of a batch for LongT5's transient-global attention, with sums over blocks.

    LongT5 cuts a sequence, with its padding, into blocks. It has as many summaries as blocks that
    end in a real token. Each is the sum of one block, except for the last, which is the sum of all
    remaining blocks. Padding on the right therefore changes nothing; padding on the left joins
    blocks that are separate without it.

    Attributes:
        packed: The tokens of the spans.
        is_padding: `(tokens,)` bool, the padding inside the spans; None where there is none.
        block_size: Number of tokens in a block.
        padding: `(batch, length)` bool, the padding of the batch; None where there is none.
        lengths: Number of summaries of each sequence, host integers.
        is_alone: `(batch, blocks, 1)` bool, the blocks that are a summary by themselves; the others
            of a sequence are its last summary together. None where every block is alone.
        indices: `(summaries,)`, the blocks of the padded batch that there are summaries of; None
            where there is one of every block.
        hidden: `(summaries,)` bool, those that LongT5 does not have; None where it has all.
        positions: `(tokens,)`, the summary at the position of each token.
    """

    packed: PackedSequences
    is_padding: Tensor | None
    block_size: int
    padding: Tensor | None
    lengths: list[int]
    is_alone: Tensor | None
    indices: Tensor | None
    hidden: Tensor | None
    positions: Tensor

    @classmethod
    def from_mask(cls, real: Tensor, block_size: int) -> "BlockSummaries":
        """Lay out a batch by its mask `(batch, length)` bool."""
        batch, length = real.shape
        num_summaries, positions, is_alone, exists = _number_summaries(real, block_size)
        num_blocks = torch.where(real, _block_of_column(real, block_size) + 1, 0).amax(1)
        counts: list[list[int]] = torch.stack([num_summaries, num_blocks], 1).tolist()
        spans = PackedSpans.from_mask(real, (batch, length))
        lengths = [summaries for summaries, blocks in counts if blocks]
        has_all = sum(lengths) == exists.numel()
        indices = None
        if not has_all:
            indices = exists.flatten().nonzero_static(size=sum(lengths))[:, 0]
        is_full = sum(spans.packed.lengths) == real.numel() and spans.is_padding is None
        return cls(
            packed=spans.packed,
            is_padding=spans.is_padding,
            block_size=block_size,
            padding=None if is_full else ~real,
            lengths=lengths,
            is_alone=is_alone if any(used > n for n, used in counts) else None,
            indices=indices,
            hidden=None,
            positions=spans.packed.pack(positions),
        )

    @classmethod
    def of_rows(cls, is_padding: Tensor, block_size: int) -> "BlockSummaries":
        """Take the whole rows of a batch, so that all masks `(batch, length)` bool are alike.

        Each row has a summary of every block; those that LongT5 does not have are hidden.
        """
        _, positions, is_alone, exists = _number_summaries(~is_padding, block_size)
        spans = PackedSpans.of_rows(is_padding)
        batch, blocks = exists.shape
        return cls(
            packed=spans.packed,
            is_padding=spans.is_padding,
            block_size=block_size,
            padding=is_padding,
            lengths=[blocks] * batch,
            is_alone=is_alone,
            indices=None,
            hidden=~exists.flatten(),
            positions=positions.flatten(),
        )

    def sum(self, hidden_states: Tensor) -> Tensor:
        """Return sums `(summaries, d_model)` of `(batch, length, d_model)`, at least in float32."""
        if self.padding is not None:
            hidden_states = hidden_states.masked_fill(self.padding[..., None], 0)
        if incomplete := -hidden_states.shape[1] % self.block_size:
            hidden_states = F.pad(hidden_states, (0, 0, 0, incomplete))
        wide = accumulation_dtype(hidden_states.dtype)
        blocks: Tensor = hidden_states.unflatten(1, (-1, self.block_size))
        sums = blocks.sum(2, dtype=wide)
        if self.is_alone is not None:
            remaining = sums.masked_fill(self.is_alone, 0).sum(1, keepdim=True)
            sums = torch.where(self.is_alone, sums, remaining)
        summaries = sums.flatten(0, 1)
        return summaries if self.indices is None else summaries.index_select(0, self.indices)


def _number_summaries(real: Tensor, block_size: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Compute what LongT5's summaries are, without waiting for the device.

    Args:
        real: Mask `(batch, length)` bool.
        block_size: Number of tokens in a block.

    Returns:
        The number of summaries `(batch,)`; the summary at each position, `(batch, length)`; the
        blocks that are a summary by themselves, `(batch, blocks, 1)` bool; and which summaries
        there are, `(batch, blocks)` bool.
    """
    num_summaries = real[:, block_size - 1 :: block_size].sum(1)
    last = num_summaries[:, None] - 1
    positions = torch.minimum(_block_of_column(real, block_size), last)
    block = torch.arange(-(-real.shape[1] // block_size), device=real.device)
    return num_summaries, positions, (block < last)[..., None], block <= last


def _block_of_column(real: Tensor, block_size: int) -> Tensor:
    return torch.arange(real.shape[1], device=real.device) // block_size


for _layout in (PackedSpans, WindowLayout, BlockSummaries):
    pytree.register_dataclass(_layout)
