"""The layers of HDT: rows packed in level order, `(tokens, d_model)` in and out."""

import torch
from torch import Tensor, nn
from transformers.activations import ACT2FN
from transformers.modeling_layers import GradientCheckpointingLayer

from foveate.ops.rms_norm import rms_norm
from foveate.ops.tree_attention import Tree, tree_attention

from .configuration import HDTConfig


class HierarchicalPositions(nn.Module):
    """Hierarchical positional encoding (HDT, eq. 2), scaled by a learned number."""

    def __init__(self, config: HDTConfig) -> None:
        super().__init__()
        self.d_model = config.d_model
        self.levels = config.num_position_levels
        self.scale_factor = nn.Parameter(torch.empty(1))
        self._table = torch.empty(0, config.d_model)

    def forward(self, embeddings: Tensor, tree: Tree) -> Tensor:
        """Add to the embeddings of every node, `(tokens, d_model)`, the encoding of its place."""
        return torch.addcmul(embeddings, self.scale_factor, self.encoding(tree).to(embeddings))

    @torch.compiler.disable  # or its loop over the levels would be compiled for every tree anew
    @torch.no_grad()
    def encoding(self, tree: Tree) -> Tensor:
        """Encode the place of every node, not yet scaled: `(tokens, d_model)`.

        A node's encoding is its parent's, in which the sinusoid of its index among its siblings
        takes the place of index 0: what levels a node does not reach count as, as published.
        """
        table = self.sinusoids(tree.largest_family + 1)
        nodes = torch.arange(len(tree), device=tree.parent.device)
        end = tree.level_sizes[0]
        parts = [(self.levels * table[:1]).expand(end, -1)]
        above = 0
        for level, size in enumerate(tree.level_sizes[1:], start=1):
            start, end = end, end + size
            parent = tree.parent[start:end]
            index = nodes[start:end] - tree.first_child.index_select(0, parent) + 1
            step = table - table[0] if level <= self.levels else table
            inherited = parts[-1].index_select(0, parent - above)
            parts.append(inherited.add_(step.index_select(0, index)))
            above = start
        return torch.cat(parts)

    def sinusoids(self, length: int) -> Tensor:
        """Sinusoids of the indices below `length`: sin on even channels, cos on odd."""
        held, wanted = self._table, self.scale_factor
        if len(held) < length or held.device != wanted.device or held.dtype != wanted.dtype:
            size = 1 << (length - 1).bit_length()  # so that a new table is seldom needed
            index = torch.arange(size, dtype=torch.float64)
            channel = torch.arange(0, self.d_model, 2, dtype=torch.float64)
            angle = index[:, None] * 10000.0 ** (-channel / self.d_model)
            table = torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)
            self._table = table[:, : self.d_model].to(wanted)
        return self._table[:length]


class HDTAttention(nn.Module):
    """Tree attention with its projections; no biases."""

    def __init__(self, config: HDTConfig, carries_bias_table: bool) -> None:
        super().__init__()
        self.heads, self.edges = config.num_heads, tuple(config.edges)
        inner = config.num_heads * config.d_kv
        self.q = nn.Linear(config.d_model, inner, bias=False)
        self.k = nn.Linear(config.d_model, inner, bias=False)
        self.v = nn.Linear(config.d_model, inner, bias=False)
        self.o = nn.Linear(inner, config.d_model, bias=False)
        if carries_bias_table:  # published weights have it in block 0; the tree needs no bias
            self.relative_attention_bias = nn.Embedding(
                config.relative_attention_num_buckets, config.num_heads
            )
            self.relative_attention_bias.weight.requires_grad_(False)

    def forward(self, rows: Tensor, tree: Tree) -> Tensor:
        """Let every node attend along its edges."""
        q, k, v = (
            projection(rows).unflatten(-1, (self.heads, -1))
            for projection in (self.q, self.k, self.v)
        )
        return self.o(tree_attention(q, k, v, tree, edges=self.edges).flatten(1))


class HDTNorm(nn.RMSNorm):
    """RMSNorm, its gradient in one kernel."""

    eps: float

    def forward(self, rows: Tensor) -> Tensor:
        """Normalize every row."""
        return rms_norm(rows, self.weight.to(rows.dtype), self.eps)


class HDTFeedForward(nn.Module):
    """Feed-forward, plain or gated; no biases."""

    def __init__(self, config: HDTConfig) -> None:
        super().__init__()
        self.activation = ACT2FN[config.dense_act_fn]
        self.inputs = ("wi_0", "wi_1") if config.is_gated_act else ("wi",)
        for name in self.inputs:
            self.add_module(name, nn.Linear(config.d_model, config.d_ff, bias=False))
        self.wo = nn.Linear(config.d_ff, config.d_model, bias=False)
        self.dropout = nn.Dropout(config.dropout_rate)

    def forward(self, rows: Tensor) -> Tensor:
        """Transform every row by itself."""
        inside, *gate = (self.get_submodule(name)(rows) for name in self.inputs)
        inside = self.activation(inside)
        return self.wo(self.dropout(inside * gate[0] if gate else inside))


class HDTSelfAttentionLayer(nn.Module):
    """rows + dropout(attention(norm(rows)))."""

    def __init__(self, config: HDTConfig, carries_bias_table: bool) -> None:
        super().__init__()
        self.SelfAttention = HDTAttention(config, carries_bias_table)
        self.layer_norm = HDTNorm(config.d_model, eps=config.layer_norm_epsilon)
        self.dropout = nn.Dropout(config.dropout_rate)

    def forward(self, rows: Tensor, tree: Tree) -> Tensor:
        """Add what attention gathers."""
        return rows + self.dropout(self.SelfAttention(self.layer_norm(rows), tree))


class HDTFeedForwardLayer(nn.Module):
    """rows + dropout(feed_forward(norm(rows)))."""

    def __init__(self, config: HDTConfig) -> None:
        super().__init__()
        self.DenseReluDense = HDTFeedForward(config)
        self.layer_norm = HDTNorm(config.d_model, eps=config.layer_norm_epsilon)
        self.dropout = nn.Dropout(config.dropout_rate)

    def forward(self, rows: Tensor) -> Tensor:
        """Add what the feed-forward makes of every row."""
        return rows + self.dropout(self.DenseReluDense(self.layer_norm(rows)))


class HDTBlock(GradientCheckpointingLayer):
    """One HDT block (HDT, 3.2): attention, then feed-forward, each on normalized rows."""

    def __init__(self, config: HDTConfig, carries_bias_table: bool) -> None:
        super().__init__()
        attention = HDTSelfAttentionLayer(config, carries_bias_table)
        self.layer = nn.ModuleList([attention, HDTFeedForwardLayer(config)])

    def forward(self, rows: Tensor, tree: Tree) -> Tensor:
        """Apply both layers."""
        return self.layer[1](self.layer[0](rows, tree))
