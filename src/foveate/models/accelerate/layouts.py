"""Where the tokens of a padded batch are: computed once per batch, and passed to every layer."""

from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils import _pytree as pytree

from foveate.models.padding import PackedSequences


@dataclass(frozen=True)
class PackedSpans:
    """The spans of a padded batch: each sequence from its first real token to its last.

    Windows are by position, so padding between real tokens stays in the span and is hidden.

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
        first_block: `(summaries,)`, the block of the padded batch that each begins with; None where
            every block is a summary.
        extra_block: `(extra,)`, other blocks that are added to a summary.
        extra_summary: `(extra,)`, the summaries that they are added to.
        positions: `(tokens,)`, the summary at the position of each token.
    """

    packed: PackedSequences
    is_padding: Tensor | None
    block_size: int
    padding: Tensor | None
    lengths: list[int]
    first_block: Tensor | None
    extra_block: Tensor
    extra_summary: Tensor
    positions: Tensor

    @classmethod
    def from_mask(cls, real: Tensor, block_size: int) -> "BlockSummaries":
        """Lay out a batch by its mask `(batch, length)` bool."""
        batch, length = real.shape
        block_of_column = torch.arange(length, device=real.device).expand(real.shape) // block_size
        num_summaries = real[:, block_size - 1 :: block_size].sum(1)
        positions = torch.minimum(block_of_column, num_summaries[:, None] - 1)
        num_blocks = torch.where(real, block_of_column + 1, 0).amax(1)
        lengths: list[int] = []
        first_block: list[int] = []
        extra_block: list[int] = []
        extra_summary: list[int] = []
        blocks_per_sequence = -(-length // block_size)
        counts = torch.stack([num_summaries, num_blocks], 1).tolist()
        for sequence, (summaries, blocks_used) in enumerate(counts):
            if blocks_used:
                start = sequence * blocks_per_sequence
                blocks = range(start, start + blocks_used)
                first_block += blocks[:summaries]
                extra_block += blocks[summaries:] if summaries else ()
                extra_summary += [len(first_block) - 1] * (len(extra_block) - len(extra_summary))
                lengths.append(summaries)
        spans = PackedSpans.from_mask(real, (batch, length))
        is_full = sum(spans.packed.lengths) == real.numel() and spans.is_padding is None
        is_every_block = len(first_block) == batch * blocks_per_sequence
        to_device = partial(torch.tensor, dtype=torch.long, device=real.device)
        return cls(
            packed=spans.packed,
            is_padding=spans.is_padding,
            block_size=block_size,
            padding=None if is_full else ~real,
            lengths=lengths,
            first_block=None if is_every_block else to_device(first_block),
            extra_block=to_device(extra_block),
            extra_summary=to_device(extra_summary),
            positions=spans.packed.pack(positions),
        )

    def sum(self, hidden_states: Tensor) -> Tensor:
        """Sums `(summaries, d_model)` of `(batch, length, d_model)`, at least in float32."""
        if self.padding is not None:
            hidden_states = hidden_states.masked_fill(self.padding[..., None], 0)
        if incomplete := -hidden_states.shape[1] % self.block_size:
            hidden_states = F.pad(hidden_states, (0, 0, 0, incomplete))
        wide = torch.promote_types(hidden_states.dtype, torch.float32)
        blocks: Tensor = hidden_states.unflatten(1, (-1, self.block_size))
        sums = blocks.sum(2, dtype=wide).flatten(0, 1)
        if self.first_block is None:
            return sums
        summaries = sums.index_select(0, self.first_block)
        if len(self.extra_block) == 0:
            return summaries
        extra = sums.index_select(0, self.extra_block)
        return summaries.index_put((self.extra_summary,), extra, accumulate=True)


for _layout in (PackedSpans, WindowLayout, BlockSummaries):
    pytree.register_dataclass(_layout)
