"""Longformer and the encoder of LED: windowed and global attention without sliding chunks.

The encoder computes the layout of a batch once and passes it to its layers as `attention_mask`.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import AttentionMaskInterface
from transformers.masking_utils import eager_mask
from transformers.models.led.modeling_led import (
    LEDEncoder,
    LEDEncoderBaseModelOutput,
    LEDEncoderSelfAttention,
)
from transformers.models.longformer.modeling_longformer import (
    LongformerBaseModelOutput,
    LongformerEncoder,
    LongformerSelfAttention,
)

from foveate.models.projections import project_heads
from foveate.models.speed_ups.cuda_graphs import CapturableEncoder
from foveate.ops.window_attention import GlobalKeysValues, global_attention, window_attention

from .layouts import WindowLayout
from .patching import warn_of_slow_weights

ONE_QUERY_MASK = "foveate_one_query"


class _LongformerAttention(nn.Module):
    """The base class of the attention of Longformer and of LED's encoder."""

    query: nn.Linear
    key: nn.Linear
    value: nn.Linear
    query_global: nn.Linear
    key_global: nn.Linear
    value_global: nn.Linear
    num_heads: int
    one_sided_attn_window_size: int

    def forward(
        self, hidden_states: Tensor, attention_mask: Any = None, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, ...]:
        """Attend, see `LongformerSelfAttention.forward`.

        Args:
            hidden_states: `(batch, length, channels)`.
            attention_mask: A `WindowLayout`; with a mask, the forward of transformers runs.
            args: Other arguments of transformers.
            kwargs: Likewise.
        """
        if not isinstance(attention_mask, WindowLayout):
            outputs: tuple[Tensor, ...] = super().forward(
                hidden_states, attention_mask, *args, **kwargs
            )
            return outputs
        layout = attention_mask
        global_indices = layout.global_indices
        has_globals = global_indices.shape[0] > 0
        tokens = layout.packed.pack(hidden_states)
        q, k, v = project_heads(tokens, self.num_heads, self.query, self.key, self.value)
        global_keys = None
        if has_globals:
            global_keys = GlobalKeysValues(
                k.index_select(0, global_indices),
                v.index_select(0, global_indices),
                layout.num_globals,
            )
        radius = self.one_sided_attn_window_size
        out = window_attention(
            q,
            k,
            v,
            (radius, radius),
            global_keys_values=global_keys,
            masked_keys=layout.hidden,
            lengths=layout.packed.lengths,
        )
        if has_globals:
            out = out.index_copy(0, global_indices, self._attend_globally(tokens, layout))
        return (layout.packed.unpack(out.flatten(1)),)

    def _attend_globally(self, tokens: Tensor, layout: WindowLayout) -> Tensor:
        """Attend from global tokens to all: `(tokens, d)` in, `(globals, heads, head_dim)` out."""
        global_tokens = tokens.index_select(0, layout.global_indices)
        (q,) = project_heads(global_tokens, self.num_heads, self.query_global)
        k, v = project_heads(tokens, self.num_heads, self.key_global, self.value_global)
        return global_attention(
            q,
            k,
            v,
            q_lengths=layout.num_globals,
            k_lengths=layout.packed.lengths,
            masked_keys=layout.is_padding,
        )


class WindowedLongformerAttention(_LongformerAttention, LongformerSelfAttention):
    """Longformer's attention."""


class WindowedLEDAttention(_LongformerAttention, LEDEncoderSelfAttention):
    """The attention of LED's encoder."""


class WindowedLongformerEncoder(CapturableEncoder, LongformerEncoder):
    """Longformer's layers, given the layout of the batch."""

    def forward(
        self,
        hidden_states: Tensor,
        attention_mask: Any = None,
        padding_len: int = 0,
        output_attentions: bool = False,
        output_hidden_states: bool = False,
        return_dict: bool = True,
    ) -> Any:
        """Encode, see `LongformerEncoder.forward`."""
        if output_attentions:
            warn_of_slow_weights()
            return super().forward(
                hidden_states,
                attention_mask,
                padding_len,
                output_attentions,
                output_hidden_states,
                return_dict,
            )
        states: list[Tensor] | None = [] if output_hidden_states else None
        run_layers, pads = self.layer_runner(hidden_states, hidden_states.numel(), states)
        lay_out = WindowLayout.of_rows if pads else WindowLayout.from_masks
        layout = lay_out(attention_mask < 0, attention_mask > 0)
        last = run_layers(hidden_states, layout, states)
        output = LongformerBaseModelOutput(
            last_hidden_state=_trim(last, padding_len),
            hidden_states=None if states is None else tuple(_trim(x, padding_len) for x in states),
        )
        return output if return_dict else output.to_tuple()

    def run_layers(
        self, hidden_states: Tensor, layout: Any, all_hidden_states: list[Tensor] | None = None
    ) -> Tensor:
        """Apply all layers to `(batch, length, channels)`."""
        for layer in self.layer:
            if all_hidden_states is not None:
                all_hidden_states.append(hidden_states)
            (hidden_states,) = layer(hidden_states, attention_mask=layout)
        if all_hidden_states is not None:
            all_hidden_states.append(hidden_states)
        return hidden_states


class WindowedLEDEncoder(CapturableEncoder, LEDEncoder):
    """LED's encoder, given the layout of the batch, with no mask of all pairs."""

    captures_float16 = False  # each layer then looks for infinities

    @property
    def captures_training(self) -> bool:
        """Whether every training step launches the same kernels: not with LayerDrop."""
        return not self.layerdrop

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        global_attention_mask: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        output_attentions: bool | None = None,
        output_hidden_states: bool | None = None,
        return_dict: bool | None = None,
        **kwargs: Any,
    ) -> Any:
        """Encode, see `LEDEncoder.forward`."""
        if output_attentions is None:
            output_attentions = bool(self.config.output_attentions)
        if output_attentions or (input_ids is None) == (inputs_embeds is None):
            if output_attentions:
                warn_of_slow_weights()
            return super().forward(
                input_ids,
                attention_mask,
                global_attention_mask,
                inputs_embeds,
                output_attentions,
                output_hidden_states,
                return_dict,
                **kwargs,
            )
        if output_hidden_states is None:
            output_hidden_states = bool(self.config.output_hidden_states)
        embeddings = self.embed_tokens(input_ids) if inputs_embeds is None else inputs_embeds
        mask = attention_mask
        if mask is None:
            mask = torch.ones(embeddings.shape[:2], dtype=torch.long, device=embeddings.device)
        if global_attention_mask is not None:
            mask = self._merge_to_attention_mask(mask, global_attention_mask)
        pad: Any = self._pad_to_window_size  # which allows no ids with embeddings
        padding_len, _, mask, embeddings = pad(None, mask, embeddings, self.padding_idx)
        states: list[Tensor] | None = [] if output_hidden_states else None
        like = self.layernorm_embedding.weight
        run_layers, pads = self.layer_runner(like, embeddings.numel(), states)
        lay_out = WindowLayout.of_rows if pads else WindowLayout.from_masks
        layout = lay_out(mask < 1, mask > 1)  # 0 padding, 1 local, 2 global
        last = run_layers(embeddings, layout, states)
        output = LEDEncoderBaseModelOutput(
            last_hidden_state=_trim(last, padding_len),
            hidden_states=None if states is None else tuple(_trim(x, padding_len) for x in states),
        )
        as_dict = self.config.return_dict if return_dict is None else return_dict
        return output if as_dict else output.to_tuple()

    def run_layers(
        self, hidden_states: Tensor, layout: Any, all_hidden_states: list[Tensor] | None = None
    ) -> Tensor:
        """Apply all layers to token embeddings `(batch, length, d_model)`."""
        hidden_states = hidden_states + self.embed_positions(hidden_states.shape[:2])
        hidden_states = self.layernorm_embedding(hidden_states)
        hidden_states = F.dropout(hidden_states, p=self.dropout, training=self.training)
        for layer in self.layers:
            if all_hidden_states is not None:
                all_hidden_states.append(hidden_states)
            # LayerDrop, as in transformers.
            if self.training and self.layerdrop > 0 and torch.rand([]) < self.layerdrop:
                continue
            (hidden_states,) = layer(hidden_states, attention_mask=layout)
        if all_hidden_states is not None:
            all_hidden_states.append(hidden_states)
        return hidden_states


def _trim(hidden_states: Tensor, padding_len: int) -> Tensor:
    """Remove the padding to a multiple of the window."""
    return hidden_states[:, : hidden_states.shape[1] - padding_len]


def one_query_mask(**arguments: Any) -> Tensor:
    """Build a mask `(batch, 1, 1, keys)`: Longformer reads the first query of a mask of all pairs.

    Registered in place of a mask function of transformers.
    """
    mask: Tensor = eager_mask(**arguments | {"q_length": 1})
    return mask


AttentionMaskInterface.register(ONE_QUERY_MASK, one_query_mask)
