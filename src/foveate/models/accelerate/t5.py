"""T5: attention with relative position bias, without materializing scores of all pairs."""

from typing import Any

import torch
from torch import Tensor
from transformers import AttentionInterface, AttentionMaskInterface, EncoderDecoderCache
from transformers.models.t5 import modeling_t5
from transformers.models.t5.modeling_t5 import T5Attention

from foveate.models.decoding import decode_attention, prefill_attention
from foveate.models.padding import PaddingMask, padding_mask
from foveate.models.projections import project, project_heads
from foveate.models.utils import bias_table
from foveate.ops.backends import autocast
from foveate.ops.precision import widened
from foveate.ops.relative_attention import relative_attention

from .patching import warn_of_slow_weights

RELATIVE_ATTENTION = "foveate_relative"

NO_WEIGHTS = (None,) if hasattr(modeling_t5, "eager_attention_forward") else ()
"""What T5's attention returns in place of weights: nothing in older versions of transformers."""


class RelativeT5Attention(T5Attention):
    """T5's attention: in the encoder, in the decoder with its cache, and cross attention.

    The `position_bias` that block 0 of T5 passes to the others is here the table of biases or, for
    a single query, the biases of all keys.
    """

    layer_idx: Any

    def forward(
        self,
        hidden_states: Tensor,
        mask: Any = None,
        key_value_states: Tensor | None = None,
        position_bias: Tensor | None = None,
        past_key_values: Any = None,
        **kwargs: Any,
    ) -> tuple[Tensor | None, ...]:
        """Attend, see `T5Attention.forward`.

        Args:
            hidden_states: `(batch, length, d_model)`.
            mask: A `PaddingMask`; with a mask of all pairs, the forward of transformers runs.
            key_value_states: In cross attention, the encoder's output.
            position_bias: What block 0 returned, None in block 0.
            past_key_values: The cache.
            kwargs: Other arguments of transformers.
        """
        if not isinstance(mask, PaddingMask) or self._returns_weights(kwargs):
            if isinstance(mask, PaddingMask):
                mask = mask.dense
            else:
                mask = _bool_mask_to_bias(mask, hidden_states.dtype)
            outputs: tuple[Tensor | None, ...] = super().forward(
                hidden_states, mask, key_value_states, position_bias, past_key_values, **kwargs
            )
            return outputs
        hidden_states = autocast(hidden_states)  # once for all products
        if not self.is_decoder:
            if position_bias is None:
                position_bias = self._bias_table(hidden_states.device)
            return self._encode(hidden_states, mask, position_bias), position_bias, *NO_WEIGHTS
        is_cross = key_value_states is not None
        states = hidden_states if key_value_states is None else autocast(key_value_states)
        past = None if is_cross else _cache_length(past_key_values, self.layer_idx)
        q = self._heads(self.q(hidden_states))
        k, v = self._keys_and_values(states, past_key_values, is_cross)
        if q.shape[2] == 1:
            if position_bias is None:
                position_bias = self._query_bias(k, past, mask)
            out = decode_attention(q, k, v, bias=position_bias)
        else:
            if position_bias is None:
                position_bias = self._bias_table(hidden_states.device)
            out = self._prefill(q, k, v, mask, position_bias, past)
        return self.o(out.flatten(2)), position_bias, *NO_WEIGHTS

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
        (output,) = project(out.flatten(1), self.o)
        return packed.unpack(output)

    def _prefill(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        mask: PaddingMask,
        table: Tensor | None,
        past: int | Tensor | None,
    ) -> Tensor:
        """Attend with several queries each, after `past` tokens; None is cross attention."""
        # As in T5, one encoded sequence may serve several decoded ones.
        batch = len(q)
        return prefill_attention(
            q,
            k.expand(batch, -1, -1, -1),
            v.expand(batch, -1, -1, -1),
            table=table,
            key_bias=None if mask.key_bias is None else mask.key_bias.expand(batch, -1),
            past=past,
            max_distance=self.relative_attention_max_distance,
        )

    def _query_bias(self, k: Tensor, past: int | Tensor | None, mask: PaddingMask) -> Tensor:
        """Return the bias on the scores of one query, `(1 or batch, 1 or heads, 1, num_keys)`."""
        num_keys, device = k.shape[2], k.device
        bias = torch.zeros(1, 1, 1, num_keys, device=device)
        hidden = torch.zeros(num_keys, dtype=torch.bool, device=device)
        if past is not None:
            hidden = torch.arange(num_keys, device=device) > past  # unused entries of static caches
            if self.has_relative_attention_bias:
                bias = self.compute_bias(1, num_keys, device=device, past_seen_tokens=past)
        if mask.real is not None:
            hidden = hidden | ~mask.real[:, None, None]
        return bias.masked_fill(hidden, -torch.inf)

    def _bias_table(self, device: torch.device) -> Tensor | None:
        """Return biases `(num_buckets, heads)`, in block 0; at least float32, as the scores are."""
        if not self.has_relative_attention_bias:
            return None
        table = bias_table(
            self.relative_attention_bias, self.relative_attention_num_buckets, device
        )
        return widened(table)

    def _heads(self, projected: Tensor) -> Tensor:
        """`(batch, length, heads · head_dim)` to `(batch, heads, length, head_dim)`."""
        heads: Tensor = projected.unflatten(-1, (self.n_heads, -1)).transpose(1, 2)
        return heads

    def _keys_and_values(self, states: Tensor, past: Any, is_cross: bool) -> tuple[Tensor, Tensor]:
        """Compute keys and values `(batch, heads, length, head_dim)`, with those in the cache."""
        cache: Any = past
        if isinstance(past, EncoderDecoderCache):
            cache = past.cross_attention_cache if is_cross else past.self_attention_cache
            if is_cross and past.is_updated.get(self.layer_idx):
                layer = cache.layers[self.layer_idx]
                return layer.keys, layer.values
        k, v = self._heads(self.k(states)), self._heads(self.v(states))
        if cache is not None:
            k, v = cache.update(k, v, self.layer_idx)
            if is_cross and isinstance(past, EncoderDecoderCache):
                past.is_updated[self.layer_idx] = True
        return k, v


def _bool_mask_to_bias(mask: Tensor | None, dtype: torch.dtype) -> Tensor | None:
    """Turn a bool mask of all pairs, as `generate` may prepare it, into a bias on the scores."""
    if mask is None or mask.dtype != torch.bool:
        return mask
    return torch.zeros_like(mask, dtype=dtype).masked_fill(~mask, torch.finfo(dtype).min)


def _cache_length(past: Any, layer_idx: int) -> int | Tensor:
    """Number of tokens in the cache of a layer."""
    length: int | Tensor = 0 if past is None else past.get_seq_length(layer_idx)
    return length.clone() if isinstance(length, Tensor) else length  # static caches change theirs


AttentionMaskInterface.register(RELATIVE_ATTENTION, padding_mask)
if NO_WEIGHTS:
    # Computes all pairs where attention weights are requested.
    AttentionInterface.register(RELATIVE_ATTENTION, modeling_t5.eager_attention_forward)
