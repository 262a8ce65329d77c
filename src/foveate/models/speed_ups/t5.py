"""T5: attention with relative position bias, without materializing scores of all pairs.

The encoder packs its tokens. The decoder is that of transformers, with its caches, and attends by
an attention function that transformers finds by its name.
"""

from typing import Any

import torch
from torch import Tensor
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.models.t5.modeling_t5 import T5Attention, eager_attention_forward

from foveate.models.decoding import decode_attention, prefill_attention
from foveate.models.masks import PaddingMask, padding_mask
from foveate.models.projections import project_heads
from foveate.models.speed_ups.t5_layers import bias_table
from foveate.ops.backends import autocast
from foveate.ops.precision import widened
from foveate.ops.relative_attention import relative_attention

from .patching import warn_of_slow_weights

RELATIVE_ATTENTION = "foveate_relative"


class RelativeT5Attention(T5Attention):
    """T5's attention: in the encoder, in the decoder with its cache, and cross attention.

    The `position_bias` that block 0 of T5 passes to the others is here the table of biases or, for
    a single query, the biases of all keys.
    """

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
            mask: A `PaddingMask`; with a mask of all pairs, scores are materialized.
            key_value_states: In cross attention, the encoder's output.
            position_bias: What block 0 returned, None in block 0.
            args: Other arguments of transformers.
            kwargs: Likewise.
        """
        if not isinstance(mask, PaddingMask):
            mask = _bool_mask_to_bias(mask, hidden_states.dtype)
        elif self._returns_weights(kwargs):
            mask = mask.dense
        else:
            hidden_states = autocast(hidden_states)  # once for all products
            if position_bias is None:
                position_bias = self._bias(hidden_states, mask)
            if not self.is_decoder:
                return self._encode(hidden_states, mask, position_bias), position_bias, None
        outputs: tuple[Any, ...] = super().forward(
            hidden_states, mask, key_value_states, position_bias, *args, **kwargs
        )
        return outputs

    def attend(
        self, q: Tensor, k: Tensor, v: Tensor, mask: PaddingMask, position_bias: Tensor
    ) -> Tensor:
        """Attend in the decoder, `(batch, heads, length, head_dim)` each.

        Returns:
            `(batch, queries, heads, head_dim)`.
        """
        batch, _, num_queries, _ = q.shape
        if num_queries == 1:
            return decode_attention(q, k, v, bias=position_bias)
        # As in T5, one encoded sequence may serve several decoded ones.
        return prefill_attention(
            q,
            k.expand(batch, -1, -1, -1),
            v.expand(batch, -1, -1, -1),
            table=position_bias if self.is_causal else None,
            key_bias=None if mask.key_bias is None else mask.key_bias.expand(batch, -1),
            past=mask.past if self.is_causal else None,
            max_distance=self.relative_attention_max_distance,
        )

    def _returns_weights(self, kwargs: dict[str, Any]) -> bool:
        if not kwargs.get("output_attentions", self.config.output_attentions):
            return False
        if self.has_relative_attention_bias:  # warn once for all blocks
            warn_of_slow_weights()
        return True

    def _encode(self, hidden_states: Tensor, mask: PaddingMask, table: Tensor | None) -> Tensor:
        packed = mask.packed
        tokens = packed.pack(hidden_states)
        q, k, v = project_heads(tokens, self.n_heads, self.q, self.k, self.v)
        out = relative_attention(
            q,
            k,
            v,
            bias=table,
            q_positions=packed.positions,
            k_positions=packed.positions,
            q_lengths=packed.lengths,
            max_distance=self.relative_attention_max_distance,
        )
        return packed.unpack(self.o(out.flatten(1)))

    def _bias(self, hidden_states: Tensor, mask: PaddingMask) -> Tensor:
        """Return what block 0 passes to the others; at least float32, as the scores are.

        Returns:
            For several queries the table `(num_buckets, heads)`, empty in cross attention; for a
            single one the biases of all keys, `(1 or batch, 1 or heads, 1, num_keys)`.
        """
        device = hidden_states.device
        if not self.is_decoder or hidden_states.shape[1] > 1:
            if not self.has_relative_attention_bias:
                return torch.empty(0, device=device)
            num_buckets = self.relative_attention_num_buckets
            return widened(bias_table(self.relative_attention_bias, num_buckets, device))
        bias = torch.zeros(1, 1, 1, mask.length, device=device)
        hidden = torch.zeros(mask.length, dtype=torch.bool, device=device)
        if self.is_causal:
            # A static cache has unused entries.
            hidden = torch.arange(mask.length, device=device) > mask.past
            if self.has_relative_attention_bias:
                bias = self.compute_bias(1, mask.length, device, past_seen_tokens=mask.past)
        if mask.real is not None:
            hidden = hidden | ~mask.real[:, None, None]
        return bias.masked_fill(hidden, -torch.inf)


def relative_attention_forward(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Any,
    *,
    position_bias: Any,
    **kwargs: Any,
) -> tuple[Tensor, Tensor | None]:
    """Attend as `RelativeT5Attention.attend` does; with a mask of all pairs, as transformers does.

    Returns:
        `(batch, queries, heads, head_dim)`, and with a mask of all pairs the attention weights.
    """
    if isinstance(attention_mask, PaddingMask):
        return module.attend(query, key, value, attention_mask, position_bias), None
    outputs: tuple[Tensor, Tensor] = eager_attention_forward(
        module, query, key, value, attention_mask, position_bias=position_bias, **kwargs
    )
    return outputs


def _bool_mask_to_bias(mask: Tensor | None, dtype: torch.dtype) -> Tensor | None:
    """Turn a bool mask of all pairs, as `generate` may prepare it, into a bias on the scores."""
    if mask is None or mask.dtype != torch.bool:
        return mask
    return torch.zeros_like(mask, dtype=dtype).masked_fill(~mask, torch.finfo(dtype).min)


AttentionInterface.register(RELATIVE_ATTENTION, relative_attention_forward)
AttentionMaskInterface.register(RELATIVE_ATTENTION, padding_mask)
