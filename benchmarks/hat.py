"""HAT, the hierarchical attention transformer, as a peer of HDT (Chalkidis et al., 2022).

A text is cut into segments of equal length, each of which begins with a token of its own, [CLS].
A segment layer is a Transformer layer within segments. A cross-segment layer is one over the first
tokens of all segments, to which it adds the positions of their segments. The published base model
has twelve segment layers with a cross-segment layer after each third of them; layers are BERT's.

HDT's tree differs in that its units are sentences and sections, and in that all levels exchange in
every layer.
"""

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers.modeling_outputs import BaseModelOutput


@dataclass(frozen=True)
class HATConfig:
    """Sizes of a model; the defaults are those of the published base model.

    Attributes:
        vocab_size: Number of tokens.
        hidden_size: Width.
        intermediate_size: Width inside of feed-forward layers.
        num_hidden_layers: Segment layers.
        num_attention_heads: Heads of every attention.
        segment_length: Tokens of a segment, [CLS] included.
        max_segments: Most segments of a text.
        cross_segment_every: A cross-segment layer follows every so many segment layers.
        dropout: Probability, in training.
        rotary: Whether queries and keys are rotated by the positions of tokens in their segment and
            of segments, instead of adding embeddings of the positions, as published.
    """

    vocab_size: int = 50265
    hidden_size: int = 768
    intermediate_size: int = 3072
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    segment_length: int = 128
    max_segments: int = 32
    cross_segment_every: int = 3
    dropout: float = 0.1
    rotary: bool = False


def token_places(number: int, segment_length: int) -> np.ndarray:
    """Return where so many tokens stand among segments that begin with one of their own."""
    index = np.arange(number)
    return 1 + index + index // (segment_length - 1)


def initialize(module: nn.Module) -> None:
    """Draw the weights of a linear layer or of embeddings as BERT does."""
    if isinstance(module, nn.Linear | nn.Embedding):
        nn.init.normal_(module.weight, std=0.02)
    if isinstance(module, nn.Linear):
        nn.init.zeros_(module.bias)


class HATLayer(nn.Module):
    """A Transformer layer, normalized after each residual as in BERT."""

    def __init__(self, config: HATConfig) -> None:
        super().__init__()
        size = config.hidden_size
        self.num_heads, self.rotary = config.num_attention_heads, config.rotary
        self.query_key_value = nn.Linear(size, 3 * size)
        self.output = nn.Linear(size, size)
        self.attention_norm = nn.LayerNorm(size)
        self.up = nn.Linear(size, config.intermediate_size)
        self.down = nn.Linear(config.intermediate_size, size)
        self.norm = nn.LayerNorm(size)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, hidden_states: Tensor, visible: Tensor | None) -> Tensor:
        """Apply the layer.

        Args:
            hidden_states: `(batch, length, hidden_size)`.
            visible: `(batch, length)` bool, which positions are attended; None for all.
        """
        attended = self.dropout(self.output(self.attend(hidden_states, visible)))
        hidden_states = self.attention_norm(hidden_states + attended)
        update = self.dropout(self.down(F.gelu(self.up(hidden_states))))
        output: Tensor = self.norm(hidden_states + update)
        return output

    def attend(self, hidden_states: Tensor, visible: Tensor | None) -> Tensor:
        """Attend to all visible positions; weights are not dropped out."""
        projected = self.query_key_value(hidden_states).unflatten(-1, (3, self.num_heads, -1))
        q, k, v = projected.permute(2, 0, 3, 1, 4)
        if self.rotary:
            q, k = rotate(q), rotate(k)
        mask = None if visible is None else visible[:, None, None]
        attended = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return attended.transpose(1, 2).flatten(2)


def rotate(x: Tensor) -> Tensor:
    """Rotate pairs of channels of `(batch, heads, length, head_dim)` by their positions."""
    length, head_dim = x.shape[-2:]
    frequencies = 10_000.0 ** -(torch.arange(0, head_dim, 2, device=x.device) / head_dim)
    angles = torch.arange(length, device=x.device)[:, None] * frequencies
    cos, sin = angles.cos(), angles.sin()
    a, b = x.chunk(2, dim=-1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1).to(x.dtype)


class HATModel(nn.Module):
    """The encoder.

    Args:
        config: Its sizes.
    """

    def __init__(self, config: HATConfig) -> None:
        super().__init__()
        self.config = config
        size = config.hidden_size
        self.word_embeddings = nn.Embedding(config.vocab_size, size)
        self.position_embeddings = self.segment_embeddings = None
        self.norm = nn.LayerNorm(size)
        self.dropout = nn.Dropout(config.dropout)
        self.layers = nn.ModuleList(HATLayer(config) for _ in range(config.num_hidden_layers))
        number = config.num_hidden_layers // config.cross_segment_every
        self.cross_segment_layers = nn.ModuleList(HATLayer(config) for _ in range(number))
        if not config.rotary:
            self.position_embeddings = nn.Embedding(config.segment_length, size)
            self.segment_embeddings = nn.ModuleList(
                nn.Embedding(config.max_segments, size) for _ in range(number)
            )
        self.apply(initialize)

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> BaseModelOutput:
        """Encode texts `(batch, length)`, whose length is a multiple of the segment length.

        Args:
            input_ids: Tokens, each segment beginning with [CLS].
            attention_mask: 0 at padding; None if there is none.

        Returns:
            `last_hidden_state` `(batch, length, hidden_size)`.
        """
        config = self.config
        segments = input_ids.unflatten(1, (-1, config.segment_length))
        batch, number = segments.shape[:2]
        visible = of_segments = None
        if attention_mask is not None:
            visible = attention_mask.bool().unflatten(1, (-1, config.segment_length)).flatten(0, 1)
            of_segments = visible.any(1).unflatten(0, (batch, number))
            first = torch.arange(config.segment_length, device=input_ids.device) == 0
            visible = visible | first  # an empty segment attends to something
        hidden_states = self.word_embeddings(segments.flatten(0, 1))
        if self.position_embeddings is not None:
            hidden_states = hidden_states + self.position_embeddings.weight
        hidden_states = self.dropout(self.norm(hidden_states))
        for i, layer in enumerate(self.layers):
            hidden_states = layer(hidden_states, visible)
            which, rest = divmod(i + 1, config.cross_segment_every)
            if rest:
                continue
            first_tokens = hidden_states[:, 0].unflatten(0, (batch, number))
            if self.segment_embeddings is not None:
                first_tokens = first_tokens + self.segment_embeddings[which - 1].weight[:number]
            first_tokens = self.cross_segment_layers[which - 1](first_tokens, of_segments)
            first_tokens = first_tokens.flatten(0, 1)[:, None]
            hidden_states = torch.cat([first_tokens, hidden_states[:, 1:]], dim=1)
        return BaseModelOutput(hidden_states.unflatten(0, (batch, number)).flatten(1, 2))
