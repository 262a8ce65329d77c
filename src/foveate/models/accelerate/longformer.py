"""Longformer and LED's encoder: windows and global tokens without sliding chunks."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.weak import WeakIdKeyDictionary
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
    LongformerLayer,
    LongformerModel,
    LongformerSelfAttention,
)

from foveate.models.accelerate.cuda_graphs import (
    CAPTURED,
    Captured,
    can_replay,
    can_replay_call,
    replay,
)
from foveate.models.padding import Packed
from foveate.ops.window_attention import GlobalKeysValues, global_attention, window_attention

from .spans import spans, warn_of_weights


@dataclass(frozen=True)
class _Layout:
    """What all layers need to know of a batch.

    Attributes:
        packed: where the rows of the sequences stand.
        unseen: `(tokens,)` bool, padding between real tokens, None where there is none.
        hidden: `(tokens,)` bool, what windows do not show: `unseen` and global tokens.
        places: `(global_tokens,)`, the packed rows of the global tokens.
        counts: global tokens of each sequence that has real ones, host integers.
    """

    packed: Packed
    unseen: Tensor | None
    hidden: Tensor | None
    places: Tensor
    counts: list[int]

    @classmethod
    def of(cls, padding: Tensor, is_global: Tensor) -> "_Layout":
        """Lay a batch out by its masks, both `(batch, length)` bool."""
        batch, length = padding.shape
        counts, padded = torch.stack([is_global.sum(1), padding.sum(1)]).tolist()
        packed, unseen = spans(~padding if any(padded) else None, (batch, length))
        places = is_global.flatten().nonzero_static(size=sum(counts))[:, 0]
        hidden = unseen
        if len(places):
            rows = packed.pack(is_global)
            hidden = rows if unseen is None else rows | unseen
            if packed.rows is not None:
                places = rows.nonzero_static(size=len(places))[:, 0]
        counts = [count for count, n in zip(counts, padded, strict=True) if n < length]
        return cls(packed, unseen, hidden, places, counts)


ONE_QUERY = "foveate_one_query"

_layouts = WeakIdKeyDictionary()
"""Layouts by the mask of padding that the model makes in each forward pass, for all its layers."""


class _Windowed(nn.Module):
    """The part that Longformer's and LED's encoder share."""

    query: nn.Linear
    key: nn.Linear
    value: nn.Linear
    query_global: nn.Linear
    key_global: nn.Linear
    value_global: nn.Linear
    num_heads: int
    one_sided_attn_window_size: int

    def forward(
        self,
        hidden_states: Tensor,
        attention_mask: Tensor | None = None,
        is_index_masked: Any = None,
        is_index_global_attn: Any = None,
        is_global_attn: bool | None = None,
        output_attentions: bool = False,
    ) -> tuple[Tensor, ...]:
        """Attend `(batch, length, channels)`, as `LongformerSelfAttention.forward` does."""
        if output_attentions:
            warn_of_weights()
            outputs: tuple[Tensor, ...] = super().forward(
                hidden_states,
                attention_mask,
                is_index_masked,
                is_index_global_attn,
                is_global_attn,
                output_attentions,
            )
            return outputs
        layout = _layouts.get(is_index_masked)
        if layout is None:
            layout = _layouts[is_index_masked] = _Layout.of(is_index_masked, is_index_global_attn)
        packed, places = layout.packed, layout.places
        rows = packed.pack(hidden_states)
        q, k, v = self._heads(rows, self.query, self.key, self.value)
        global_keys_values = None
        if places.shape[0]:
            global_keys_values = GlobalKeysValues(
                k.index_select(0, places), v.index_select(0, places), layout.counts
            )
        reach = self.one_sided_attn_window_size
        out = window_attention(
            q,
            k,
            v,
            (reach, reach),
            global_keys_values=global_keys_values,
            masked_keys=layout.hidden,
            lengths=packed.lengths,
        )
        if places.shape[0]:
            (queries,) = self._heads(rows.index_select(0, places), self.query_global)
            keys, values = self._heads(rows, self.key_global, self.value_global)
            everywhere = global_attention(
                *(queries, keys, values),
                q_lengths=layout.counts,
                k_lengths=packed.lengths,
                masked_keys=layout.unseen,
            )
            out = out.index_copy(0, places, everywhere)
        return (packed.unpack(out.flatten(1)),)

    def _heads(self, rows: Tensor, *projections: nn.Module) -> list[Tensor]:
        """Projections of rows `(n, channels)`, each `(n, heads, head_dim)`."""
        return [project(rows).unflatten(-1, (self.num_heads, -1)) for project in projections]


class WindowedLongformerAttention(_Windowed, LongformerSelfAttention):
    """Longformer's attention."""


class WindowedLEDAttention(_Windowed, LEDEncoderSelfAttention):
    """The attention of LED's encoder."""


class UnchunkedLongformerLayer(LongformerLayer):
    """Longformer's layer, which inspects its own methods in every call, in case it has chunks."""

    def forward(self, *arguments: Any, **options: Any) -> tuple[Tensor, ...]:
        """Do as `LongformerLayer.forward` does."""
        if self.chunk_size_feed_forward:
            outputs: tuple[Tensor, ...] = super().forward(*arguments, **options)
            return outputs
        attended, *weights = self.attention(*arguments, **options)
        return self.ff_chunk(attended), *weights


class CapturedLongformerEncoder(Captured, LongformerEncoder):
    """Longformer's layers, launched as one graph in inference."""

    @staticmethod
    def can_capture(encoder: Any) -> bool:
        """Whether all layers are accelerated: others wait for the device."""
        return all(type(x.attention.self) is WindowedLongformerAttention for x in encoder.layer)

    def forward(
        self,
        hidden_states: Tensor,
        attention_mask: Any = None,
        padding_len: int = 0,
        output_attentions: bool = False,
        output_hidden_states: bool = False,
        return_dict: bool = True,
    ) -> Any:
        """Do as `LongformerEncoder.forward` does."""
        head_dim = self.config.hidden_size // self.config.num_attention_heads
        if (output_attentions or output_hidden_states) or not can_replay(
            self, hidden_states, head_dim
        ):
            return super().forward(
                hidden_states,
                attention_mask,
                padding_len,
                output_attentions,
                output_hidden_states,
                return_dict,
            )
        layout = _Layout.of(attention_mask < 0, attention_mask > 0)
        last = replay(self, self._encode, hidden_states, layout)
        last = last[:, : last.shape[1] - padding_len]
        return LongformerBaseModelOutput(last_hidden_state=last) if return_dict else (last,)

    def _encode(self, hidden_states: Tensor, layout: _Layout) -> Tensor:
        return _apply(self.layer, hidden_states, layout)


CAPTURED[LongformerEncoder] = CapturedLongformerEncoder


def _apply(layers: nn.ModuleList, hidden_states: Tensor, layout: _Layout) -> Tensor:
    """Apply layers without having them look at masks."""
    mask = hidden_states.new_empty(0)  # only says which layout it is
    _layouts[mask] = layout
    for layer in layers:
        (hidden_states,) = layer(hidden_states, attention_mask=None, is_index_masked=mask)
    return hidden_states


class _Unexpanded(Tensor):
    """A mask of keys that is not copied for each query, of which only the first is read."""

    def expand(self, *shape: Any) -> Tensor:  # type: ignore[override] # of two signatures, one
        """Leave it as it is."""
        return self.as_subclass(Tensor)


class LinearLEDEncoder(LEDEncoder):
    """LED's encoder, which makes a mask of all pairs of its mask, to read one row of it."""

    def _pad_to_window_size(self, *arguments: Any, **options: Any) -> tuple[Any, ...]:
        padding_len, ids, mask, embeds = super()._pad_to_window_size(*arguments, **options)
        return padding_len, ids, mask.as_subclass(_Unexpanded), embeds


class CapturedLEDEncoder(Captured, LinearLEDEncoder):
    """LED's encoder, launched as one graph in inference."""

    @staticmethod
    def can_capture(encoder: Any) -> bool:
        """Whether all layers are accelerated: others wait for the device."""
        own = (x.self_attn.longformer_self_attn for x in encoder.layers)
        return all(type(x) is WindowedLEDAttention for x in own)

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
        """Do as `LEDEncoder.forward` does."""
        if not can_replay_call(
            self,
            self.layernorm_embedding.weight,
            self.config.d_model // self.config.encoder_attention_heads,
            input_ids,
            inputs_embeds,
            output_attentions=output_attentions,
            output_hidden_states=output_hidden_states,
            return_dict=return_dict,
        ):
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
        rows = self.embed_tokens(input_ids) if inputs_embeds is None else inputs_embeds
        mask = rows.new_ones(rows.shape[:2]) if attention_mask is None else attention_mask
        if global_attention_mask is not None:
            mask = self._merge_to_attention_mask(mask, global_attention_mask)
        padding_len, _, mask, rows = self._pad_to_window_size(None, mask, rows, self.padding_idx)
        mask = mask.as_subclass(Tensor)
        last = replay(self, self._encode, rows, _Layout.of(mask < 1, mask > 1))
        last = last[:, : last.shape[1] - padding_len]
        return LEDEncoderBaseModelOutput(last_hidden_state=last)

    def _encode(self, rows: Tensor, layout: _Layout) -> Tensor:
        rows = self.layernorm_embedding(rows + self.embed_positions(rows.shape[:2]))
        return _apply(self.layers, rows, layout)


CAPTURED[LinearLEDEncoder] = CapturedLEDEncoder


def mask_of_one(**arguments: Any) -> Tensor:
    """Mask `(batch, 1, 1, keys)`: Longformer makes one of all pairs, to read one row of it."""
    mask: Tensor = eager_mask(**arguments | {"q_length": 1})
    return mask


FASTER: dict[type[nn.Module], type[nn.Module]] = {
    LongformerSelfAttention: WindowedLongformerAttention,
    LEDEncoderSelfAttention: WindowedLEDAttention,
    LEDEncoder: LinearLEDEncoder,
    LongformerLayer: UnchunkedLongformerLayer,
}
MASKS: dict[type[nn.Module], str] = {LongformerModel: ONE_QUERY}

AttentionMaskInterface.register(ONE_QUERY, mask_of_one)
