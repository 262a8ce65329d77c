"""Longformer and LED's encoder: windows and global tokens without sliding chunks."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.weak import WeakIdKeyDictionary
from transformers.models.led.modeling_led import LEDEncoderSelfAttention
from transformers.models.longformer.modeling_longformer import LongformerSelfAttention

from foveate.models.padding import Packed
from foveate.ops.window_attention import Side, global_attention, window_attention

from .spans import spans, warn_of_weights


@dataclass(frozen=True)
class _Layout:
    """What all layers need to know of a batch.

    Attributes:
        packed: where the rows of the sequences stand.
        unseen: `(tokens,)` bool, padding between real tokens, None where there is none.
        hidden: `(tokens,)` bool, what windows do not show: `unseen` and global tokens.
        places: `(global_tokens,)`, the packed rows of the global tokens.
        counts: global tokens of each sequence, host integers.
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
        packed, unseen = spans(~padding, (batch, length))
        counts, tokens = torch.stack([is_global.sum(1), (~padding).sum(1)]).tolist()
        counts = [count for count, any_token in zip(counts, tokens, strict=True) if any_token]
        rows = packed.pack(is_global)
        places = torch.nonzero_static(rows, size=sum(counts))[:, 0]
        if not sum(counts):
            return cls(packed, unseen, unseen, places, counts)
        return cls(packed, unseen, rows if unseen is None else rows | unseen, places, counts)


_layouts = WeakIdKeyDictionary()
"""Layouts by the mask that the model makes in each forward pass and hands to all layers."""


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
        side = None
        if len(places):
            side = Side(k.index_select(0, places), v.index_select(0, places), layout.counts)
        reach = self.one_sided_attn_window_size
        out = window_attention(
            *(q, k, v), (reach, reach), side=side, hidden=layout.hidden, lengths=packed.lengths
        )
        if len(places):
            (queries,) = self._heads(rows.index_select(0, places), self.query_global)
            keys, values = self._heads(rows, self.key_global, self.value_global)
            everywhere = global_attention(
                *(queries, keys, values),
                q_lengths=layout.counts,
                k_lengths=packed.lengths,
                hidden=layout.unseen,
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


FASTER: dict[type[nn.Module], type[nn.Module]] = {
    LongformerSelfAttention: WindowedLongformerAttention,
    LEDEncoderSelfAttention: WindowedLEDAttention,
}
