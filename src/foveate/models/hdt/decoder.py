"""The decoder of HDT-ED: T5's, with scaled scores; rows are padded, `(batch, length, d_model)`."""

from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import EncoderDecoderCache
from transformers.modeling_layers import GradientCheckpointingLayer

from foveate.ops.relative_attention.buckets import buckets

from .configuration import HDTConfig
from .layers import HDTFeedForwardLayer, HDTNorm


class RelativeBias(nn.Embedding):
    """What is added to scores for each bucket of distances between query and key, and each head."""

    def __init__(self, config: HDTConfig) -> None:
        super().__init__(config.relative_attention_num_buckets, config.num_heads)
        self.max_distance = config.relative_attention_max_distance

    def forward(self, distance: Tensor) -> Tensor:
        """Bias `(heads, queries, keys)` of causal attention by distance `(queries, keys)`."""
        bucket = buckets(distance, self.num_embeddings, self.max_distance, bidirectional=False)
        return super().forward(bucket).permute(2, 0, 1)


class HDTDecoderAttention(nn.Module):
    """Attention of rows over themselves or over a memory; no biases."""

    def __init__(self, config: HDTConfig) -> None:
        super().__init__()
        self.heads = config.num_heads
        inner = config.num_heads * config.d_kv
        self.q = nn.Linear(config.d_model, inner, bias=False)
        self.k = nn.Linear(config.d_model, inner, bias=False)
        self.v = nn.Linear(config.d_model, inner, bias=False)
        self.o = nn.Linear(inner, config.d_model, bias=False)

    def keys_and_values(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values `(batch, heads, length, d_kv)` of rows."""
        return self._heads(self.k(rows)), self._heads(self.v(rows))

    def forward(self, rows: Tensor, keys: Tensor, values: Tensor, mask: Tensor) -> Tensor:
        """Attend; the mask is boolean, or what is added to the scores."""
        attended = F.scaled_dot_product_attention(
            self._heads(self.q(rows)), keys, values, attn_mask=mask
        )
        return self.o(attended.transpose(1, 2).flatten(2))

    def _heads(self, rows: Tensor) -> Tensor:
        return rows.unflatten(-1, (self.heads, -1)).transpose(1, 2)


class HDTDecoderSelfAttentionLayer(nn.Module):
    """rows + dropout(attention(norm(rows))), each row seeing itself and those before it."""

    def __init__(self, config: HDTConfig, number: int) -> None:
        super().__init__()
        self.number = number
        self.SelfAttention = HDTDecoderAttention(config)
        if number == 0:  # the first block's bias serves all blocks
            self.SelfAttention.relative_attention_bias = RelativeBias(config)
        self.layer_norm = HDTNorm(config.d_model, eps=config.layer_norm_epsilon)
        self.dropout = nn.Dropout(config.dropout_rate)

    def forward(self, rows: Tensor, mask: Tensor, cache: EncoderDecoderCache | None) -> Tensor:
        """Add what attention gathers; keys and values join those of earlier rows in the cache."""
        normed = self.layer_norm(rows)
        keys, values = self.SelfAttention.keys_and_values(normed)
        if cache is not None:
            keys, values = cache.self_attention_cache.update(keys, values, self.number)
        return rows + self.dropout(self.SelfAttention(normed, keys, values, mask.to(keys.dtype)))


class HDTCrossAttentionLayer(nn.Module):
    """rows + dropout(attention(norm(rows), memory))."""

    def __init__(self, config: HDTConfig, number: int) -> None:
        super().__init__()
        self.number = number
        self.EncDecAttention = HDTDecoderAttention(config)
        self.layer_norm = HDTNorm(config.d_model, eps=config.layer_norm_epsilon)
        self.dropout = nn.Dropout(config.dropout_rate)

    def forward(
        self, rows: Tensor, memory: Tensor, mask: Tensor, cache: EncoderDecoderCache | None
    ) -> Tensor:
        """Add what attention gathers; the memory's keys and values are made once per cache."""
        if cache is None:
            keys, values = self.EncDecAttention.keys_and_values(memory)
        elif cache.is_updated.get(self.number):
            made: Any = cache.cross_attention_cache.layers[self.number]
            keys, values = made.keys, made.values
        else:
            keys, values = cache.cross_attention_cache.update(
                *self.EncDecAttention.keys_and_values(memory), self.number
            )
            cache.is_updated[self.number] = True
        attended = self.EncDecAttention(self.layer_norm(rows), keys, values, mask)
        return rows + self.dropout(attended)


class HDTDecoderBlock(GradientCheckpointingLayer):
    """Causal attention, attention over the memory, feed-forward, each on normalized rows."""

    def __init__(self, config: HDTConfig, number: int) -> None:
        super().__init__()
        self.layer = nn.ModuleList(
            [
                HDTDecoderSelfAttentionLayer(config, number),
                HDTCrossAttentionLayer(config, number),
                HDTFeedForwardLayer(config),
            ]
        )

    def forward(
        self,
        rows: Tensor,
        mask: Tensor,
        memory: Tensor,
        memory_mask: Tensor,
        distance: Tensor | None = None,
        past_key_values: EncoderDecoderCache | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Apply the layers, and give the mask on: the first block, given distances, adds the bias.

        It does so itself, since parameters that are sharded by block exist only in their block.
        """
        if distance is not None:
            attention = cast(HDTDecoderSelfAttentionLayer, self.layer[0]).SelfAttention
            mask = mask + cast(RelativeBias, attention.relative_attention_bias)(distance)
        rows = self.layer[0](rows, mask, past_key_values)
        rows = self.layer[1](rows, memory, memory_mask, past_key_values)
        return self.layer[2](rows), mask


class HDTDecoder(nn.Module):
    """The blocks, between norms."""

    def __init__(self, config: HDTConfig) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(config.vocab_size, config.d_model)
        self.emb_norm = HDTNorm(config.d_model, eps=config.layer_norm_epsilon)
        self.block = nn.ModuleList(
            HDTDecoderBlock(config, number) for number in range(config.num_decoder_layers or 0)
        )
        self.final_layer_norm = HDTNorm(config.d_model, eps=config.layer_norm_epsilon)
        self.dropout = nn.Dropout(config.dropout_rate)

    def forward(
        self,
        embeddings: Tensor,
        memory: Tensor,
        memory_mask: Tensor,
        attention_mask: Tensor | None = None,
        cache: EncoderDecoderCache | None = None,
    ) -> Tensor:
        """Decode token embeddings `(batch, length, d_model)` against a memory.

        Args:
            embeddings: of the tokens that are not in the cache.
            memory: `(batch, memory rows, d_model)`.
            memory_mask: `(batch, memory rows)`, false at padding.
            attention_mask: `(batch, all tokens)`, 0 at padding, which may stand on either side.
            cache: keys and values of the tokens before, to which those of these are added.

        Raises:
            ValueError: a cache of a fixed length, or a mask of another shape.
        """
        if cache is not None and cache.is_compileable:
            raise ValueError(
                "HDT-ED's cache grows with what is written, and one of a fixed length cannot: "
                "leave out cache_implementation, or make it 'dynamic'"
            )
        past = 0 if cache is None else int(cache.get_seq_length())
        shape = (len(embeddings), past + embeddings.shape[1])
        if attention_mask is not None and attention_mask.shape != shape:
            raise ValueError(
                f"decoder_attention_mask must be {shape}, a number for each token that is or was "
                f"written, got {tuple(attention_mask.shape)}"
            )
        keys = torch.arange(past + embeddings.shape[1], device=embeddings.device)
        distance = keys - keys[past:, None]
        hidden = distance > 0
        if attention_mask is not None:
            # A row of padding sees itself, so that its softmax is over something.
            padding = ~attention_mask[:, None, None, :].bool() & (distance != 0)
            hidden = hidden | padding
        mask = embeddings.new_zeros(hidden.shape).masked_fill(hidden, float("-inf"))
        rows = self.dropout(self.emb_norm(embeddings))
        bias_by: Tensor | None = distance
        for block in self.block:
            rows, mask = block(
                rows, mask, memory, memory_mask[:, None, None], bias_by, past_key_values=cache
            )
            bias_by = None
        return self.dropout(self.final_layer_norm(rows))
