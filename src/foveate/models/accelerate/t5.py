"""T5: attention with relative position bias that never forms all pairs."""

from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface, EncoderDecoderCache
from transformers.models.t5 import modeling_t5
from transformers.models.t5.modeling_t5 import T5Attention, T5Stack

from foveate.models.decoding import attend_many, attend_one
from foveate.models.padding import Padding, padding
from foveate.ops.backends import autocast
from foveate.ops.relative_attention import relative_attention

from .spans import warn_of_weights

RELATIVE_ATTENTION = "foveate_relative"

NO_WEIGHTS = (None,) if hasattr(modeling_t5, "eager_attention_forward") else ()
"""What T5's attention returns in place of weights: in older versions of transformers, nothing."""


class RelativeT5Attention(T5Attention):
    """T5's attention: in the encoder, in the decoder with its cache, and across.

    What block 0 of T5 passes to the others as position bias is here the table of biases; for a
    single query, the row of biases of all keys.
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
        """Attend `(batch, length, d_model)`, as `T5Attention.forward` does."""
        if not isinstance(mask, Padding) or self._shows_weights(kwargs):
            mask = mask.dense if isinstance(mask, Padding) else _additive(mask, hidden_states.dtype)
            outputs: tuple[Tensor | None, ...] = super().forward(
                hidden_states, mask, key_value_states, position_bias, past_key_values, **kwargs
            )
            return outputs
        hidden_states = autocast(hidden_states)  # once for all products
        if not self.is_decoder:
            position_bias = self._table() if position_bias is None else position_bias
            return self._encode(hidden_states, mask, position_bias), position_bias, *NO_WEIGHTS
        crosses = key_value_states is not None
        states = hidden_states if key_value_states is None else autocast(key_value_states)
        past = None if crosses else _length(past_key_values, self.layer_idx)
        q = self._heads(self.q(hidden_states))
        k, v = self._keys_and_values(states, past_key_values, crosses)
        if q.shape[2] == 1:
            if position_bias is None:
                position_bias = self._row(k.shape[2], past, mask)
            out = attend_one(q, k, v, bias=position_bias)
        else:
            position_bias = self._table() if position_bias is None else position_bias
            out = self._decode(q, k, v, mask, position_bias, past)
        return self.o(out.flatten(2)), position_bias, *NO_WEIGHTS

    def _shows_weights(self, kwargs: dict[str, Any]) -> bool:
        asked = "output_attentions" in kwargs
        if not (kwargs["output_attentions"] if asked else self.config.output_attentions):
            return False
        if self.has_relative_attention_bias:  # once for all blocks
            warn_of_weights()
        return True

    def _encode(self, hidden_states: Tensor, mask: Padding, table: Tensor | None) -> Tensor:
        packed = mask.packed
        rows = packed.pack(hidden_states)
        q, k, v = (x(rows).unflatten(-1, (self.n_heads, -1)) for x in (self.q, self.k, self.v))
        out = relative_attention(
            *(q, k, v),
            bias=table,
            q_positions=packed.columns,
            k_positions=packed.columns,
            q_lengths=packed.lengths,
            max_distance=self.relative_attention_max_distance,
        )
        return packed.unpack(self.o(out.flatten(1)))

    def _decode(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        mask: Padding,
        table: Tensor | None,
        past: int | Tensor | None,
    ) -> Tensor:
        """Attend several queries per sequence; `past` is how many came before, None across."""
        # As in T5, one encoded sequence may serve several decoded ones.
        batch = len(q)
        return attend_many(
            *(q, *(x.expand(batch, -1, -1, -1) for x in (k, v))),
            table=table,
            key_bias=None if mask.key_bias is None else mask.key_bias.expand(batch, -1),
            past=past,
            max_distance=self.relative_attention_max_distance,
        )

    def _row(self, n: int, past: int | Tensor | None, mask: Padding) -> Tensor:
        """What is added to one query's scores, `(1 or batch, 1 or heads, 1, n)`."""
        device = self.q.weight.device
        bias = torch.zeros(1, 1, 1, n, device=device)
        hidden = torch.zeros(n, dtype=torch.bool, device=device)
        if past is not None:
            hidden = torch.arange(n, device=device) > past  # rows of a static cache to be filled
            if self.has_relative_attention_bias:
                bias = self.compute_bias(1, n, device=device, past_seen_tokens=past)
        if mask.real is not None:
            hidden = hidden | ~mask.real[:, None, None]
        return bias.masked_fill(hidden, -torch.inf)

    def _table(self) -> Tensor | None:
        """Biases `(num_buckets, heads)`, in block 0; in float32 at least, as scores are."""
        if not self.has_relative_attention_bias:
            return None
        buckets = torch.arange(self.relative_attention_num_buckets, device=self.q.weight.device)
        # A copy, by the module's own forward: a block that is checkpointed must not give out a
        # parameter, and one that is sharded gathers it by a hook.
        table: Tensor = self.relative_attention_bias(buckets)
        return table.to(torch.promote_types(table.dtype, torch.float32))

    def _heads(self, rows: Tensor) -> Tensor:
        """`(batch, length, heads · head_dim)` to `(batch, heads, length, head_dim)`."""
        return rows.unflatten(-1, (self.n_heads, -1)).transpose(1, 2)

    def _keys_and_values(self, states: Tensor, past: Any, crosses: bool) -> tuple[Tensor, Tensor]:
        """Keys and values `(batch, heads, length, head_dim)`, with those in the cache."""
        cache: Any = past
        if isinstance(past, EncoderDecoderCache):
            cache = past.cross_attention_cache if crosses else past.self_attention_cache
            if crosses and past.is_updated.get(self.layer_idx):
                layer = cache.layers[self.layer_idx]
                return layer.keys, layer.values
        k, v = self._heads(self.k(states)), self._heads(self.v(states))
        if cache is not None:
            k, v = cache.update(k, v, self.layer_idx)
            if crosses and isinstance(past, EncoderDecoderCache):
                past.is_updated[self.layer_idx] = True
        return k, v


def _additive(mask: Tensor | None, dtype: torch.dtype) -> Tensor | None:
    """A mask of all pairs as what is added to scores; `generate` may prepare it as booleans."""
    if mask is None or mask.dtype != torch.bool:
        return mask
    return torch.zeros_like(mask, dtype=dtype).masked_fill(~mask, torch.finfo(dtype).min)


def _length(past: Any, layer: int) -> int | Tensor:
    """How many rows a layer's cache holds."""
    length = 0 if past is None else past.get_seq_length(layer)
    return length.clone() if isinstance(length, Tensor) else length  # a static cache counts in it


FASTER: dict[type[nn.Module], type[nn.Module]] = {T5Attention: RelativeT5Attention}
MASKS: dict[type[nn.Module], str] = {T5Stack: RELATIVE_ATTENTION}

AttentionMaskInterface.register(RELATIVE_ATTENTION, padding)
if NO_WEIGHTS:
    # What computes all pairs where attention weights are asked for.
    AttentionInterface.register(RELATIVE_ATTENTION, modeling_t5.eager_attention_forward)
