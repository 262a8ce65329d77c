"""LongT5's encoder, local and transient-global, without copies of the neighbouring blocks' keys.

The stack computes the layout of a batch once and passes it to its blocks as `attention_mask`. The
`position_bias` that block 0 of LongT5 passes to the others is here its table of biases and, in
transient-global attention, that of the summaries, `(1 or 2, num_buckets, heads)`; at least in
float32, as the scores are.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers.modeling_outputs import BaseModelOutputWithPastAndCrossAttentions
from transformers.models.longt5.modeling_longt5 import (
    LongT5LocalAttention,
    LongT5Stack,
    LongT5TransientGlobalAttention,
)

from foveate.models.projections import project_heads
from foveate.models.speed_ups.cuda_graphs import CapturableEncoder
from foveate.models.speed_ups.t5_layers import bias_table
from foveate.ops.backends import autocast
from foveate.ops.precision import widened
from foveate.ops.window_attention import GlobalKeysValues, window_attention

from .layouts import BlockSummaries, PackedSpans
from .patching import warn_of_slow_weights


class _LongT5Attention(nn.Module):
    """The base class of both kinds of attention."""

    q: nn.Linear
    k: nn.Linear
    v: nn.Linear
    o: nn.Linear
    n_heads: int
    local_radius: int
    relative_attention_num_buckets: int
    relative_attention_max_distance: int
    relative_attention_bias: Any  # differently declared by transformers

    def forward(
        self,
        hidden_states: Tensor,
        mask: Any = None,
        position_bias: Tensor | None = None,
        output_attentions: bool = False,
    ) -> tuple[Tensor, ...]:
        """Attend, see `LongT5TransientGlobalAttention.forward`.

        Args:
            hidden_states: `(batch, length, d_model)`.
            mask: A `PackedSpans` or a `BlockSummaries`; with a mask, the forward of transformers
                runs.
            position_bias: The tables of biases, None in block 0.
            output_attentions: Ignored with a layout.
        """
        if not isinstance(mask, PackedSpans | BlockSummaries):
            outputs: tuple[Tensor, ...] = super().forward(
                hidden_states, mask, position_bias, output_attentions
            )
            return outputs
        packed = mask.packed
        if position_bias is None:
            tables = [
                bias_table(table, self.relative_attention_num_buckets, hidden_states.device)
                for table in self._tables()
            ]
            position_bias = widened(torch.stack(tables))
        tokens = packed.pack(autocast(hidden_states))  # once for all products
        q, k, v = project_heads(tokens, self.n_heads, self.q, self.k, self.v)
        out = window_attention(
            q,
            k,
            v,
            (self.local_radius, self.local_radius),
            global_keys_values=self._summarize(hidden_states, mask, position_bias[-1]),
            bias=position_bias[0],
            masked_keys=mask.is_padding,
            lengths=packed.lengths,
            max_distance=self.relative_attention_max_distance,
            scale=1.0,
        )
        return packed.unpack(self.o(out.flatten(1))), position_bias

    def _tables(self) -> list[nn.Module]:
        """List the tables of biases."""
        return [self.relative_attention_bias]

    def _summarize(
        self, hidden_states: Tensor, layout: Any, bias: Tensor
    ) -> GlobalKeysValues | None:
        """Return the summaries of blocks, if tokens see them, given the bias of their places."""
        return None


class WindowedLongT5LocalAttention(_LongT5Attention, LongT5LocalAttention):
    """LongT5's local attention."""


class WindowedLongT5TransientGlobalAttention(_LongT5Attention, LongT5TransientGlobalAttention):
    """LongT5's transient-global attention."""

    def _tables(self) -> list[nn.Module]:
        return [self.relative_attention_bias, self.global_relative_attention_bias]

    def _summarize(self, hidden_states: Tensor, layout: Any, bias: Tensor) -> GlobalKeysValues:
        summaries = self.global_input_layer_norm(layout.sum(hidden_states))
        k, v = project_heads(summaries, self.n_heads, self.k, self.v)
        return GlobalKeysValues(k, v, layout.lengths, bias, layout.positions, layout.hidden)


class WindowedLongT5Encoder(CapturableEncoder, LongT5Stack):
    """LongT5's encoder, given the layout of the batch."""

    captures_float16 = False  # each block then looks for infinities

    def forward(  # type: ignore[override] # has no inputs of decoders
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        *,
        inputs_embeds: Tensor | None = None,
        output_attentions: bool | None = None,
        output_hidden_states: bool | None = None,
        return_dict: bool | None = None,
        **kwargs: Any,
    ) -> Any:
        """Encode, see `LongT5Stack.forward`."""
        if output_attentions is None:
            output_attentions = bool(self.config.output_attentions)
        if output_attentions or (input_ids is None) == (inputs_embeds is None):
            if output_attentions:
                warn_of_slow_weights()
            return super().forward(
                input_ids,
                attention_mask,
                inputs_embeds=inputs_embeds,
                output_attentions=output_attentions,
                output_hidden_states=output_hidden_states,
                return_dict=return_dict,
                **kwargs,
            )
        if output_hidden_states is None:
            output_hidden_states = bool(self.config.output_hidden_states)
        embeddings = self.embed_tokens(input_ids) if inputs_embeds is None else inputs_embeds
        states: list[Tensor] | None = [] if output_hidden_states else None
        like = self.embed_tokens.weight
        run_layers, pads = self.layer_runner(like, embeddings.numel(), states)
        length = embeddings.shape[1]
        layout: Any
        if pads:
            embeddings, layout = self._pad_rows(embeddings, attention_mask)
        else:
            layout = self._layout(attention_mask, embeddings)
        last = run_layers(embeddings, layout, states)[:, :length]
        output = BaseModelOutputWithPastAndCrossAttentions(
            last_hidden_state=last, hidden_states=None if states is None else tuple(states)
        )
        as_dict = self.config.return_dict if return_dict is None else return_dict
        return output if as_dict else output.to_tuple()

    @property
    def _is_local(self) -> bool:
        return bool(self.config.encoder_attention_type == "local")

    def _layout(
        self, attention_mask: Tensor | None, embeddings: Tensor
    ) -> PackedSpans | BlockSummaries:
        batch, length = embeddings.shape[:2]
        real = None if attention_mask is None else attention_mask != 0
        if self._is_local:
            return PackedSpans.from_mask(real, (batch, length))
        if real is None:
            real = torch.ones(batch, length, dtype=torch.bool, device=embeddings.device)
        return BlockSummaries.from_mask(real, self.config.global_block_size)

    def _pad_rows(
        self, embeddings: Tensor, attention_mask: Tensor | None
    ) -> tuple[Tensor, PackedSpans | BlockSummaries]:
        """Pad a batch `(batch, length, d_model)` to one of a few lengths, and lay out its rows."""
        from foveate.ops._triton.math import bucket_size  # where there are graphs, there is Triton

        if attention_mask is None:
            attention_mask = embeddings.new_ones(embeddings.shape[:2])
        missing = bucket_size(embeddings.shape[1]) - embeddings.shape[1]
        embeddings = F.pad(embeddings, (0, 0, 0, missing))
        is_padding = F.pad(attention_mask, (0, missing)) == 0
        if self._is_local:
            return embeddings, PackedSpans.of_rows(is_padding)
        return embeddings, BlockSummaries.of_rows(is_padding, self.config.global_block_size)

    def run_layers(
        self, hidden_states: Tensor, layout: Any, all_hidden_states: list[Tensor] | None = None
    ) -> Tensor:
        """Apply all blocks to token embeddings `(batch, length, d_model)`."""
        hidden_states = self.dropout(hidden_states)
        position_bias = None
        for block in self.block:
            if all_hidden_states is not None:
                all_hidden_states.append(hidden_states)
            hidden_states, position_bias, *_ = block(hidden_states, layout, position_bias)
        hidden_states = self.dropout(self.final_layer_norm(hidden_states))
        if all_hidden_states is not None:
            all_hidden_states.append(hidden_states)
        return hidden_states
