"""Cross attention to a compressed encoder: the decoder's tokens are the VIP tokens (VCC, 6.5).

Keys and values are linear in the encoder's states, so those of a block's mean are the block's mean
keys and values. They are computed once and cached; each step scores them, and projects the tokens
of the blocks that its queries look at most. Ordinary cross attention caches every token in every
layer, and attends all of them at every step.
"""

from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import EncoderDecoderCache
from transformers.models.t5.modeling_t5 import T5Block, T5Stack

from foveate.models.accelerate.t5 import NO_WEIGHTS, RelativeT5Attention
from foveate.models.decoding import attend_many, attend_one
from foveate.models.padding import Padding


def compress_cross_attention(decoder: T5Stack) -> None:
    """Let an accelerated decoder see the encoder's output compressed, by changes of class."""
    blocks: Any = decoder.block
    for block in blocks:
        block.__class__ = VipDecoderBlock
        block.layer[1].EncDecAttention.__class__ = VipCrossAttention


class Masks(NamedTuple):
    """What is real.

    Attributes:
        encoded: the encoder's tokens.
        decoded: the decoder's, with those in the cache.
    """

    encoded: Any
    decoded: Any


class VipDecoderBlock(T5Block):
    """A block whose cross attention knows which of the decoder's tokens are real."""

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
        """Run as `T5Block.forward` does."""
        masks = Masks(encoder_attention_mask, attention_mask)
        outputs: tuple[Tensor | None, ...] = super().forward(
            *(hidden_states, attention_mask, position_bias, encoder_hidden_states, masks),
            *args,
            **kwargs,
        )
        return outputs


class VipCrossAttention(RelativeT5Attention):
    """T5's cross attention, of `num_fine_blocks` blocks of `block_size` tokens and of block means.

    The queries of a call choose together: all target tokens in training, those of one step in
    generation. Those that are padding do not count.
    """

    def forward(
        self,
        hidden_states: Tensor,
        mask: Any = None,
        key_value_states: Tensor | None = None,
        position_bias: Tensor | None = None,
        past_key_values: Any = None,
        **kwargs: Any,
    ) -> tuple[Tensor | None, ...]:
        """Attend `(batch, length, d_model)`, as `T5Attention.forward` does, with `Masks`.

        Raises:
            RuntimeError: other masks, which another attention implementation of the decoder makes.
        """
        if not isinstance(mask, Masks) or not isinstance(mask.encoded, Padding):
            raise RuntimeError(
                "compressed cross attention has an implementation of its own, but the decoder was "
                "restored or given another one: load the model anew, with "
                "compress_cross_attention=False if it should not compress"
            )
        assert key_value_states is not None
        blocks = _blocks(mask.encoded, key_value_states, self.config.block_size)
        q = self._heads(self.q(hidden_states))
        k, v = self._of_means(blocks, key_value_states, past_key_values)
        scores = (q @ k.mT).float() + blocks.bias
        count = min(self.config.num_fine_blocks, blocks.counts.shape[1])
        shares = self._shares(hidden_states, mask.decoded, past_key_values)
        best = (scores.softmax(-1).mean(1) * shares[..., None]).sum(1).topk(count).indices
        tokens, real = blocks.tokens(key_value_states, best)
        keys = torch.cat([k, self._heads(self.k(tokens))], 2)
        values = torch.cat([v, self._heads(self.v(tokens))], 2)
        multiplicity = torch.cat([blocks.counts.scatter(1, best, 0), real], 1)
        attend = attend_one if q.shape[2] == 1 else attend_many
        out = attend(q, keys, values, key_bias=multiplicity.log())
        return self.o(out.flatten(2)), position_bias, *NO_WEIGHTS

    def _shares(self, queries: Tensor, mask: Any, past: Any) -> Tensor:
        """What each query's attention counts for `(batch, length)`: nothing where it is padding."""
        batch, length = queries.shape[:2]
        shares = torch.ones(batch, length, device=queries.device)
        real = mask.real if isinstance(mask, Padding) else _seen_last(mask)
        if length > 1 and real is not None:
            # The decoder's own attention has put this call's tokens into the cache.
            before = 0 if past is None else past.get_seq_length(self.layer_idx) - length
            shares = real[:, before + torch.arange(length, device=shares.device)].float()
        return shares / shares.sum(1, keepdim=True).clamp(min=1)

    def _of_means(self, blocks: "_Blocks", states: Tensor, past: Any) -> tuple[Tensor, Tensor]:
        """Keys and values of the blocks' means `(batch, heads, blocks, head_dim)`, cached."""
        cached = isinstance(past, EncoderDecoderCache)
        if cached and past.is_updated.get(self.layer_idx):
            layer = past.cross_attention_cache.layers[self.layer_idx]
            k, v = layer.keys, layer.values
        else:
            means = blocks.means(states)
            k, v = self._heads(self.k(means)), self._heads(self.v(means))
            if cached:
                past.is_updated[self.layer_idx] = True
                k, v = past.cross_attention_cache.update(k, v, self.layer_idx)
        count = blocks.counts.shape[1]  # a static cache is longer than filled
        return k[:, :, :count], v[:, :, :count]


def _seen_last(mask: Tensor | None) -> Tensor | None:
    """Which keys the last query sees `(batch, keys)`, from the mask that a static cache has."""
    if mask is None:
        return None
    last = mask[:, 0, -1]
    return last if last.dtype == torch.bool else last >= 0


class _Blocks(NamedTuple):
    """Where the states of an encoder `(batch, length, d_model)` stand in blocks: real tokens first.

    Attributes:
        order: the token at each place, `(batch, length)`, None where there is no mask.
        real: 1 at real tokens, else 0, `(batch, blocks, size)`, float32.
        counts: real tokens of each block, `(batch, blocks)`.
        bias: their logarithms `(batch, 1, 1, blocks)`, -inf where there is none.
    """

    order: Tensor | None
    real: Tensor
    counts: Tensor
    bias: Tensor

    def means(self, states: Tensor) -> Tensor:
        """Means of the blocks' real tokens, `(batch, blocks, d_model)`."""
        if self.order is not None:
            states = states.gather(1, self.order[..., None].expand_as(states))
        padded = F.pad(states, (0, 0, 0, self.real[0].numel() - states.shape[1]))
        blocks = padded.unflatten(1, self.real.shape[1:])
        blocks = blocks * self.real[..., None].to(blocks.dtype)
        wide = torch.promote_types(states.dtype, torch.float32)
        means = blocks.sum(2, dtype=wide) / self.counts.clamp(min=1)[..., None]
        return means.to(states.dtype)

    def tokens(self, states: Tensor, blocks: Tensor) -> tuple[Tensor, Tensor]:
        """Tokens of some blocks `(batch, b)`: `(batch, b · size, d_model)`; 1 if real, else 0."""
        size = self.real.shape[2]
        places = blocks[..., None] * size + torch.arange(size, device=blocks.device)
        places = places.flatten(1)
        sequence = torch.arange(len(places), device=places.device)[:, None]
        inside = places.clamp(max=states.shape[1] - 1)
        if self.order is not None:
            inside = self.order.gather(1, inside)
        return states[sequence, inside], self.real.flatten(1).gather(1, places)


_found: WeakKeyDictionary[Padding, _Blocks] = WeakKeyDictionary()


def _blocks(mask: Padding, states: Tensor, size: int) -> _Blocks:
    """Blocks of `size` tokens, made once for all layers, which have one mask."""
    if mask not in _found:
        real, order = mask.real, None
        if real is None:
            real = torch.ones(states.shape[:2], dtype=torch.bool, device=states.device)
        else:
            order = real.bool().int().argsort(dim=1, descending=True, stable=True)
            real = real.gather(1, order)
        real = F.pad(real, (0, -states.shape[1] % size)).float().unflatten(1, (-1, size))
        counts = real.sum(2)
        _found[mask] = _Blocks(order, real, counts, counts.log()[:, None, None])
    return _found[mask]
