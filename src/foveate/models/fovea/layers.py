"""The layers of Fovea's encoder: packed rows, `(tokens, d_model)` in and out."""

import torch
from torch import Tensor, nn
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.models.t5.modeling_t5 import T5Attention

from foveate.models.accelerate.t5_layers import FusedRMSNorm, FusedT5LayerFF
from foveate.ops.fovea_attention import fovea_attention

from .configuration import FoveaConfig


class FoveaAttention(T5Attention):
    """Fovea attention with T5's projections."""

    def __init__(self, config: FoveaConfig, has_relative_attention_bias: bool) -> None:
        super().__init__(config, has_relative_attention_bias)
        self.block_size = config.block_size
        self.k_neighbours = config.k_neighbours
        self.coverage = config.coverage

    def forward(  # type: ignore[override] # rows are packed here, and masks lengths
        self, rows: Tensor, bias: Tensor | None, lengths: list[int]
    ) -> tuple[Tensor, Tensor]:
        """Let every row attend its own sequence, fine to coarse.

        Args:
            rows: `(tokens, d_model)`, sequences one after the other.
            bias: `(num_buckets, heads)`, the biases of block 0; None in block 0 itself.
            lengths: tokens in each sequence.

        Returns:
            What attention gathers, `(tokens, d_model)`, and the biases.
        """
        q, k, v = (x(rows).unflatten(-1, (self.n_heads, -1)) for x in (self.q, self.k, self.v))
        if bias is None:
            buckets = torch.arange(self.relative_attention_num_buckets, device=rows.device)
            bias = self.relative_attention_bias(buckets)
        attended = fovea_attention(
            *(q, k, v),
            block_size=self.block_size,
            k_neighbours=self.k_neighbours,
            coverage=self.coverage,
            bias=bias,
            lengths=lengths,
            max_distance=self.relative_attention_max_distance,
        )
        return self.o(attended.flatten(1)), bias


class FoveaSelfAttentionLayer(nn.Module):
    """rows + dropout(attention(norm(rows)))."""

    def __init__(self, config: FoveaConfig, has_relative_attention_bias: bool) -> None:
        super().__init__()
        self.SelfAttention = FoveaAttention(config, has_relative_attention_bias)
        self.layer_norm = FusedRMSNorm(config.d_model, eps=config.layer_norm_epsilon)
        self.dropout = nn.Dropout(config.dropout_rate)

    def forward(
        self, rows: Tensor, bias: Tensor | None, lengths: list[int]
    ) -> tuple[Tensor, Tensor]:
        """Add what attention gathers."""
        attended, bias = self.SelfAttention(self.layer_norm(rows), bias, lengths)
        return rows + self.dropout(attended), bias


class FoveaBlock(GradientCheckpointingLayer):
    """Attention, then feed-forward, each on normalized rows; block 0 gives all the biases."""

    def __init__(self, config: FoveaConfig, has_relative_attention_bias: bool) -> None:
        super().__init__()
        attention = FoveaSelfAttentionLayer(config, has_relative_attention_bias)
        self.layer = nn.ModuleList([attention, FusedT5LayerFF(config)])

    def forward(
        self, rows: Tensor, bias: Tensor | None, lengths: list[int]
    ) -> tuple[Tensor, Tensor]:
        """Apply both layers."""
        rows, bias = self.layer[0](rows, bias, lengths)
        return self.layer[1](rows), bias
