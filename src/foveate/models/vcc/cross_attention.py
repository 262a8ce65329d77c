"""Cross attention to a compressed encoder: the decoder's tokens are the VIP tokens (VCC, 6.5).

Keys and values are linear in the encoder's states, so those of a block's mean are the block's mean
keys and values. They are computed once and cached; each step scores them, and projects the tokens
of the blocks that its queries attend to most. Ordinary cross attention caches every token in every
layer, and attends to all of them at every step.

Where the blocks are is computed by the first block of the decoder, and passed to the others as the
`position_bias` of cross attention, which T5 has no other use for.
"""

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import EncoderDecoderCache
from transformers.models.t5.modeling_t5 import T5Block, T5Stack

from foveate.models.decoding import decode_attention, find_cache, prefill_attention
from foveate.models.masks import PaddingMask
from foveate.models.speed_ups.t5 import RelativeT5Attention
from foveate.ops.precision import accumulation_dtype


def compress_cross_attention(decoder: T5Stack) -> None:
    """Make a decoder, after `speed_up`, attend to the compressed encoder output, in place."""
    blocks: Any = decoder.block
    for block in blocks:
        block.__class__ = VipDecoderBlock
        block.layer[1].EncDecAttention.__class__ = VipCrossAttention


class CrossAttentionMasks(NamedTuple):
    """The masks that compressed cross attention needs.

    Attributes:
        encoder: Of the encoder's tokens.
        decoder: Of the decoder's tokens, with those in the cache.
    """

    encoder: Any
    decoder: Any


class VipDecoderBlock(T5Block):
    """A block that passes the decoder's mask to its cross attention too."""

    def forward(
        self,
        hidden_states: Tensor,
        attention_mask: Any = None,
        position_bias: Tensor | None = None,
        encoder_hidden_states: Tensor | None = None,
        encoder_attention_mask: Any = None,
        *args: Any,
        **kwargs: Any,
    ) -> tuple[Tensor | None, ...]:
        """Apply the layers, see `T5Block.forward`."""
        outputs: tuple[Tensor | None, ...] = super().forward(
            hidden_states,
            attention_mask,
            position_bias,
            encoder_hidden_states,
            CrossAttentionMasks(encoder_attention_mask, attention_mask),
            *args,
            **kwargs,
        )
        return outputs


class VipCrossAttention(RelativeT5Attention):
    """T5's cross attention, to `num_fine_blocks` blocks of `block_size` tokens and to block means.

    The queries of a call choose blocks together: all target tokens in training, those of one step
    in generation. Padding has no say.
    """

    layer_idx: Any

    def forward(
        self,
        hidden_states: Tensor,
        mask: Any = None,
        key_value_states: Tensor | None = None,
        position_bias: Any = None,
        *args: Any,
        **kwargs: Any,
    ) -> tuple[Any, ...]:
        """Attend, see `T5Attention.forward`.

        Args:
            hidden_states: `(batch, length, d_model)`.
            mask: `CrossAttentionMasks`.
            key_value_states: The encoder's output.
            position_bias: The `EncoderBlocks` that the first block returned, None in that block.
            args: Other arguments of transformers.
            kwargs: Likewise.

        Raises:
            RuntimeError: The decoder was restored.
        """
        if not isinstance(mask, CrossAttentionMasks) or not isinstance(mask.encoder, PaddingMask):
            raise RuntimeError(
                "compressed cross attention has an implementation of its own, but the decoder was "
                "restored: load the model again, with compress_cross_attention=False if it should "
                "not compress"
            )
        assert key_value_states is not None
        blocks: EncoderBlocks = position_bias
        if blocks is None:
            block_size = self.config.block_size
            blocks = EncoderBlocks.from_mask(mask.encoder.real, key_value_states, block_size)
        cache = find_cache(*args, *kwargs.values())
        are_cached = isinstance(cache, EncoderDecoderCache) and cache.is_updated.get(self.layer_idx)
        return super().forward(
            hidden_states,
            mask.encoder,
            key_value_states if are_cached else blocks.means(key_value_states),
            blocks,
            *args,
            encoder_states=key_value_states,
            shares=self._shares(hidden_states, mask.decoder, cache)[..., None],
            **kwargs,
        )

    def attend(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Any, position_bias: Any, **kwargs: Any
    ) -> Tensor:
        """Attend to block means, and to the tokens of the blocks that the queries attend to most.

        The keys and values are those of block means; the `position_bias` is the `EncoderBlocks`.
        """
        blocks: EncoderBlocks = position_bias
        num_blocks = blocks.counts.shape[1]  # a static cache has unused entries
        k, v = k[:, :, :num_blocks], v[:, :, :num_blocks]
        scores = (q @ k.mT).float() + blocks.bias
        count = min(self.config.num_fine_blocks, num_blocks)
        best = (scores.softmax(-1).mean(1) * kwargs["shares"]).sum(1).topk(count).indices
        tokens, real = blocks.tokens(kwargs["encoder_states"], best)
        keys = torch.cat([k, self._heads(self.k(tokens))], 2)
        values = torch.cat([v, self._heads(self.v(tokens))], 2)
        multiplicity = torch.cat([blocks.counts.scatter(1, best, 0), real], 1)
        attend = decode_attention if q.shape[2] == 1 else prefill_attention
        return attend(q, keys, values, key_bias=multiplicity.log())

    def _heads(self, projected: Tensor) -> Tensor:
        """`(batch, length, heads · head_dim)` to `(batch, heads, length, head_dim)`."""
        heads: Tensor = projected.unflatten(-1, (self.n_heads, -1)).transpose(1, 2)
        return heads

    def _shares(self, queries: Tensor, mask: Any, past: Any) -> Tensor:
        """Return each query's weight in the choice of blocks, `(batch, length)`: 0 at padding."""
        batch, length = queries.shape[:2]
        shares = torch.ones(batch, length, device=queries.device)
        real = mask.real if isinstance(mask, PaddingMask) else _keys_of_last_query(mask)
        if length > 1 and real is not None:
            # The decoder's own attention has put this call's tokens into the cache.
            before = 0 if past is None else past.get_seq_length(self.layer_idx) - length
            shares = real[:, before + torch.arange(length, device=shares.device)].float()
        return shares / shares.sum(1, keepdim=True).clamp(min=1)


def _keys_of_last_query(mask: Tensor | None) -> Tensor | None:
    """Return the keys `(batch, keys)` that the last query sees, by the mask of a static cache."""
    if mask is None:
        return None
    last = mask[:, 0, -1]
    return last if last.dtype == torch.bool else last >= 0


class EncoderBlocks(NamedTuple):
    """The states of an encoder `(batch, length, d_model)` cut into blocks, real tokens first.

    Attributes:
        order: `(batch, length)`, the token at each position, None where there is no mask.
        real: `(batch, blocks, size)`, 1 at real tokens, else 0, float32.
        counts: `(batch, blocks)`, the number of real tokens of each block.
        bias: `(batch, 1, 1, blocks)`, the logarithms of the counts, -inf at empty blocks.
    """

    order: Tensor | None
    real: Tensor
    counts: Tensor
    bias: Tensor

    @classmethod
    def from_mask(cls, real: Tensor | None, states: Tensor, size: int) -> "EncoderBlocks":
        """Cut a batch into blocks of `size` real tokens by its mask `(batch, length)`."""
        order = None
        if real is None:
            real = torch.ones(states.shape[:2], dtype=torch.bool, device=states.device)
        else:
            order = real.bool().int().argsort(dim=1, descending=True, stable=True)
            real = real.gather(1, order)
        real = F.pad(real, (0, -states.shape[1] % size)).float().unflatten(1, (-1, size))
        counts = real.sum(2)
        return cls(order, real, counts, counts.log()[:, None, None])

    def means(self, states: Tensor) -> Tensor:
        """Compute the means of the blocks' real tokens, `(batch, blocks, d_model)`."""
        if self.order is not None:
            states = states.gather(1, self.order[..., None].expand_as(states))
        padded = F.pad(states, (0, 0, 0, self.real[0].numel() - states.shape[1]))
        blocks = padded.unflatten(1, self.real.shape[1:])
        blocks = blocks * self.real[..., None].to(blocks.dtype)
        wide = accumulation_dtype(states.dtype)
        means: Tensor = blocks.sum(2, dtype=wide) / self.counts.clamp(min=1)[..., None]
        return means.to(states.dtype)

    def tokens(self, states: Tensor, blocks: Tensor) -> tuple[Tensor, Tensor]:
        """Gather tokens of blocks `(batch, b)`: `(batch, b · size, d_model)`; 1 if real, else 0."""
        size = self.real.shape[2]
        positions = blocks[..., None] * size + torch.arange(size, device=blocks.device)
        positions = positions.flatten(1)
        sequence = torch.arange(len(positions), device=positions.device)[:, None]
        indices = positions.clamp(max=states.shape[1] - 1)
        if self.order is not None:
            indices = self.order.gather(1, indices)
        return states[sequence, indices], self.real.flatten(1).gather(1, positions)
