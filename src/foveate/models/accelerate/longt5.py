"""LongT5's encoder, local and transient-global: no keys of neighbouring blocks are copied.

What block 0 of LongT5 passes to the others as position bias is here its table of biases, in
transient-global attention with that of the summaries, `(2, num_buckets, heads)`; in float32 at
least, as scores are.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.weak import WeakIdKeyDictionary
from transformers.modeling_outputs import BaseModelOutputWithPastAndCrossAttentions
from transformers.models.longt5.modeling_longt5 import (
    LongT5LocalAttention,
    LongT5Stack,
    LongT5TransientGlobalAttention,
)

from foveate.models.accelerate.cuda_graphs import CAPTURED, Captured, can_replay_call, replay
from foveate.models.padding import Packed
from foveate.ops.backends import autocast
from foveate.ops.window_attention import GlobalKeysValues, window_attention

from .spans import spans, warn_of_weights
from .summaries import Summaries

_layouts = WeakIdKeyDictionary()
"""What the layers need to know of a batch, by the mask that the model hands to all of them."""


class WindowedLongT5LocalAttention(LongT5LocalAttention):
    """LongT5's local attention."""

    def forward(
        self,
        hidden_states: Tensor,
        mask: Tensor | None = None,
        position_bias: Tensor | None = None,
        output_attentions: bool = False,
    ) -> tuple[Tensor, ...]:
        """Attend `(batch, length, d_model)`, as `LongT5LocalAttention.forward` does."""
        if output_attentions:
            warn_of_weights()
            return super().forward(hidden_states, mask, position_bias, output_attentions)
        batch, length, _ = hidden_states.shape
        if mask is None:
            packed, hidden = spans(None, (batch, length))
        elif position_bias is None or mask not in _layouts:
            # A real token sees itself; the mask is (batch, 1, blocks, block, 3 · block).
            real = mask.diagonal(mask.shape[3], -2, -1).flatten(1)[:, :length]
            packed, hidden = _layouts[mask] = spans(real > 0, (batch, length))
        else:
            packed, hidden = _layouts[mask]
        if position_bias is None:
            position_bias = self.tables()
        hidden_states = autocast(hidden_states)  # once for all products
        q, k, v = _heads(self, packed.pack(hidden_states), self.q, self.k, self.v)
        out = window_attention(
            *(q, k, v),
            (self.local_radius, self.local_radius),
            bias=position_bias,
            masked_keys=hidden,
            lengths=packed.lengths,
            max_distance=self.relative_attention_max_distance,
            scale=1.0,
        )
        return packed.unpack(self.o(out.flatten(1))), position_bias

    def tables(self) -> Tensor:
        """The biases, in block 0."""
        return _tables(self.relative_attention_bias)[0]

    def layout(self, real: Tensor) -> tuple[Packed, Tensor | None]:
        """What the layers need to know of a batch, by its mask `(batch, length)` bool."""
        return spans(real, (real.shape[0], real.shape[1]))


class WindowedLongT5TransientGlobalAttention(LongT5TransientGlobalAttention):
    """LongT5's transient-global attention."""

    def forward(
        self,
        hidden_states: Tensor,
        mask: Tensor | None = None,
        position_bias: Tensor | None = None,
        output_attentions: bool = False,
    ) -> tuple[Tensor, ...]:
        """Attend `(batch, length, d_model)`, as `LongT5TransientGlobalAttention.forward` does."""
        if output_attentions:
            warn_of_weights()
            return super().forward(hidden_states, mask, position_bias, output_attentions)
        summaries = self._summaries(hidden_states, mask, position_bias is None)
        packed = summaries.packed
        if position_bias is None:
            position_bias = self.tables()
        q, k, v = _heads(self, packed.pack(autocast(hidden_states)), self.q, self.k, self.v)
        summed = self.global_input_layer_norm(summaries.sum(hidden_states))
        global_k, global_v = _heads(self, summed, self.k, self.v)
        bias, global_bias = position_bias
        out = window_attention(
            *(q, k, v),
            (self.local_radius, self.local_radius),
            global_keys_values=GlobalKeysValues(
                global_k, global_v, summaries.lengths, global_bias, summaries.positions
            ),
            bias=bias,
            masked_keys=summaries.hidden,
            lengths=packed.lengths,
            max_distance=self.relative_attention_max_distance,
            scale=1.0,
        )
        return packed.unpack(self.o(out.flatten(1))), position_bias

    def tables(self) -> Tensor:
        """The biases, in block 0."""
        return _tables(self.relative_attention_bias, self.global_relative_attention_bias)

    def layout(self, real: Tensor) -> Summaries:
        """What the layers need to know of a batch, by its mask `(batch, length)` bool."""
        return Summaries.of(real, self.global_block_size)

    def _summaries(self, hidden_states: Tensor, mask: Tensor | None, first: bool) -> Summaries:
        """The batch's summaries, found by the first layer."""
        known = None if mask is None or first else _layouts.get(mask)
        if isinstance(known, Summaries) and known.block == self.global_block_size:
            return known
        shape, device = hidden_states.shape[:2], hidden_states.device
        real = torch.ones(shape, dtype=torch.bool, device=device) if mask is None else mask != 0
        summaries = self.layout(real)
        if mask is not None:
            _layouts[mask] = summaries
        return summaries


class CapturedLongT5Stack(Captured, LongT5Stack):
    """LongT5's encoder, launched as one graph in inference."""

    @staticmethod
    def can_capture(encoder: Any) -> bool:
        """Whether it is an encoder all of whose layers are accelerated: others build masks."""
        own = (_attention(block) for block in encoder.block)
        return not encoder.is_decoder and all(type(x) in FASTER.values() for x in own)

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        encoder_hidden_states: Tensor | None = None,
        encoder_attention_mask: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        past_key_values: Any = None,
        use_cache: bool | None = None,
        output_attentions: bool | None = None,
        output_hidden_states: bool | None = None,
        return_dict: bool | None = None,
        **kwargs: Any,
    ) -> Any:
        """Do as `LongT5Stack.forward` does."""
        if not can_replay_call(
            self,
            self.embed_tokens.weight,
            self.config.d_kv,
            input_ids,
            inputs_embeds,
            output_attentions=output_attentions,
            output_hidden_states=output_hidden_states,
            return_dict=return_dict,
        ):
            return super().forward(
                input_ids,
                attention_mask,
                encoder_hidden_states,
                encoder_attention_mask,
                inputs_embeds,
                past_key_values,
                use_cache,
                output_attentions,
                output_hidden_states,
                return_dict,
                **kwargs,
            )
        rows = self.embed_tokens(input_ids) if inputs_embeds is None else inputs_embeds
        mask = rows.new_ones(rows.shape[:2]) if attention_mask is None else attention_mask
        last = replay(self, self._encode, rows, _attention(self.block[0]).layout(mask != 0))
        return BaseModelOutputWithPastAndCrossAttentions(last_hidden_state=last)

    def _encode(self, rows: Tensor, layout: Any) -> Tensor:
        mask = rows.new_empty(0)  # only says which layout it is
        _layouts[mask] = layout
        bias = _attention(self.block[0]).tables()
        for block in self.block:
            rows, bias, *_ = block(rows, mask, bias)
        return self.final_layer_norm(rows)


CAPTURED[LongT5Stack] = CapturedLongT5Stack


def _attention(block: Any) -> Any:
    layer = block.layer[0]
    local = "LocalSelfAttention"
    return getattr(layer, local if hasattr(layer, local) else "TransientGlobalSelfAttention", None)


def _tables(*tables: nn.Embedding) -> Tensor:
    """Tables `(num_buckets, heads)`, stacked.

    A copy, since a block that is checkpointed must not give out a parameter.
    """
    stacked = torch.stack([table.weight for table in tables])
    return stacked.to(torch.promote_types(stacked.dtype, torch.float32))


def _heads(attention: Any, rows: Tensor, *projections: nn.Module) -> list[Tensor]:
    """Projections of rows `(n, d_model)`, each `(n, heads, head_dim)`."""
    return [project(rows).unflatten(-1, (attention.n_heads, -1)) for project in projections]


FASTER: dict[type[nn.Module], type[nn.Module]] = {
    LongT5LocalAttention: WindowedLongT5LocalAttention,
    LongT5TransientGlobalAttention: WindowedLongT5TransientGlobalAttention,
}
