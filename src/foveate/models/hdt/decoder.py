"""The decoder of HDT-ED: T5's, with scaled scores; rows are padded, `(batch, length, d_model)`."""

from typing import Any, cast

import torch
from torch import Tensor, nn
from transformers import EncoderDecoderCache
from transformers.modeling_layers import GradientCheckpointingLayer

from foveate.models.decoding import attend_many, attend_one
from foveate.models.padding import hiding
from foveate.ops.relative_attention import buckets

from .configuration import HDTConfig
from .layers import HDTFeedForwardLayer, HDTNorm


class RelativeBias(nn.Embedding):
    """What is added to scores for each bucket of distances between query and key, and each head."""

    def __init__(self, config: HDTConfig) -> None:
        super().__init__(config.relative_attention_num_buckets, config.num_heads)
        self.max_distance = config.relative_attention_max_distance

    def of(self, queries: int, past: int) -> Tensor:
        """The table `(num_buckets, heads)`; for a single query, the row of biases of all keys.

        That is `(heads, 1, past + 1)`. In float32 at least, as scores are.
        """
        table: Tensor = self(torch.arange(self.num_embeddings, device=self.weight.device))
        table = table.to(torch.promote_types(table.dtype, torch.float32))
        if queries > 1:
            return table
        distance = torch.arange(-past, 1, device=table.device)
        bucket = buckets(distance, self.num_embeddings, self.max_distance, bidirectional=False)
        return table[bucket].T[:, None]


class HDTDecoderAttention(nn.Module):
    """Attention of rows over themselves or over a memory; no biases."""

    def __init__(self, config: HDTConfig) -> None:
        super().__init__()
        self.heads, self.scale = config.num_heads, config.d_kv**-0.5
        self.max_distance = config.relative_attention_max_distance
        inner = config.num_heads * config.d_kv
        self.q = nn.Linear(config.d_model, inner, bias=False)
        self.k = nn.Linear(config.d_model, inner, bias=False)
        self.v = nn.Linear(config.d_model, inner, bias=False)
        self.o = nn.Linear(inner, config.d_model, bias=False)

    def keys_and_values(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values `(batch, heads, length, d_kv)` of rows."""
        return self._heads(self.k(rows)), self._heads(self.v(rows))

    def forward(
        self,
        rows: Tensor,
        keys: Tensor,
        values: Tensor,
        key_bias: Tensor | None,
        bias: Tensor | None = None,
        past: int | None = None,
    ) -> Tensor:
        """Attend all keys, or with `past` those before; `bias` is what `RelativeBias.of` gives."""
        q = self._heads(self.q(rows))
        if q.shape[2] == 1:
            out = attend_one(q, keys, values, bias=bias, key_bias=key_bias, scale=self.scale)
        else:
            out = attend_many(
                *(q, keys, values),
                table=bias,
                key_bias=key_bias,
                past=past,
                max_distance=self.max_distance,
                scale=self.scale,
            )
        return self.o(out.flatten(2))

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

    def forward(
        self,
        rows: Tensor,
        bias: Tensor | None,
        key_bias: Tensor | None,
        cache: EncoderDecoderCache | None,
    ) -> tuple[Tensor, Tensor]:
        """Add what attention gathers; keys and values join those of earlier rows in the cache.

        The first layer makes the bias and gives it on. It does so itself, since parameters that
        are sharded by block exist only in their block.
        """
        normed = self.layer_norm(rows)
        keys, values = self.SelfAttention.keys_and_values(normed)
        if cache is not None:
            keys, values = cache.self_attention_cache.update(keys, values, self.number)
        past = keys.shape[2] - rows.shape[1]
        if bias is None:
            own = cast(RelativeBias, self.SelfAttention.relative_attention_bias)
            bias = own.of(rows.shape[1], past)
        attended = self.SelfAttention(normed, keys, values, key_bias, bias, past)
        return rows + self.dropout(attended), bias


class HDTCrossAttentionLayer(nn.Module):
    """rows + dropout(attention(norm(rows), memory))."""

    def __init__(self, config: HDTConfig, number: int) -> None:
        super().__init__()
        self.number = number
        self.EncDecAttention = HDTDecoderAttention(config)
        self.layer_norm = HDTNorm(config.d_model, eps=config.layer_norm_epsilon)
        self.dropout = nn.Dropout(config.dropout_rate)

    def forward(
        self,
        rows: Tensor,
        memory: Tensor,
        memory_bias: Tensor,
        cache: EncoderDecoderCache | None,
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
        attended = self.EncDecAttention(self.layer_norm(rows), keys, values, memory_bias)
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
        bias: Tensor | None,
        key_bias: Tensor | None,
        memory: Tensor,
        memory_bias: Tensor,
        past_key_values: EncoderDecoderCache | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Apply the layers; the first block, given None, makes the biases for all."""
        rows, bias = self.layer[0](rows, bias, key_bias, past_key_values)
        rows = self.layer[1](rows, memory, memory_bias, past_key_values)
        return self.layer[2](rows), bias


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
        key_bias = None if attention_mask is None else hiding(attention_mask)
        memory_bias, bias = hiding(memory_mask), None
        rows = self.dropout(self.emb_norm(embeddings))
        for block in self.block:
            rows, bias = block(rows, bias, key_bias, memory, memory_bias, past_key_values=cache)
        return self.dropout(self.final_layer_norm(rows))
