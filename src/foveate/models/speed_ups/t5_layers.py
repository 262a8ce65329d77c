"""The norms and feed-forward layers of T5 and LongT5: the same parameters in less time."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers.activations import ACT2FN
from transformers.models.longt5.modeling_longt5 import LongT5DenseGatedActDense, LongT5LayerNorm
from transformers.models.t5.modeling_t5 import (
    T5DenseActDense,
    T5DenseGatedActDense,
    T5LayerNorm,
)

from foveate.models.projections import feed_forward, to_weight_dtype
from foveate.ops.backends import autocast
from foveate.ops.rms_norm import rms_norm

_GELU_TANH = tuple(type(ACT2FN[name]) for name in ("gelu_new", "gelu_pytorch_tanh"))
"""Two names in transformers for one function."""


class RMSNorm(nn.Module):
    """T5's norm in one kernel each way; a mixin for a class that has its parameters."""

    weight: nn.Parameter
    variance_epsilon: float

    def forward(self, hidden_states: Tensor) -> Tensor:
        """Normalize `(..., d_model)`; the output has the dtype of the weight."""
        # The input can be wider than the weight: T5 keeps some products of float16 in float32.
        weight = self.weight
        dtype = torch.promote_types(hidden_states.dtype, weight.dtype)
        normed = rms_norm(hidden_states.to(dtype), weight.to(dtype), self.variance_epsilon)
        return normed.to(weight.dtype)


class _Float32MeanRMSNorm(RMSNorm):
    """T5's norm, which computes the mean of squares in float32, in float64 models too."""

    def forward(self, hidden_states: Tensor) -> Tensor:
        """Normalize `(..., d_model)`."""
        if hidden_states.dtype == torch.float64:
            normed: Tensor = super(RMSNorm, self).forward(hidden_states)
            return normed
        return super().forward(hidden_states)


class FusedT5LayerNorm(_Float32MeanRMSNorm, T5LayerNorm):
    """T5's norm."""


class FusedLongT5LayerNorm(_Float32MeanRMSNorm, LongT5LayerNorm):
    """LongT5's norm."""


class GatedGELUDense(nn.Module):
    """T5's gated feed-forward; a mixin for a class that has its parameters.

    PyTorch's GELU is one kernel, where the activation of transformers takes eight. Gates with other
    activations run the forward of transformers.
    """

    wi_0: nn.Linear
    wi_1: nn.Linear
    wo: nn.Linear
    dropout: nn.Dropout
    act: nn.Module

    def forward(self, hidden_states: Tensor) -> Tensor:
        """Compute Wo · (GELU(W0 · x) ∘ (W1 · x)) for every x of `(..., d_model)`."""
        if not isinstance(self.act, _GELU_TANH):
            outputs: Tensor = super().forward(hidden_states)
            return outputs
        hidden_states = autocast(hidden_states)  # once for both products
        gate = F.gelu(self.wi_0(hidden_states), approximate="tanh")
        gated = self.dropout(gate * self.wi_1(hidden_states))
        output: Tensor = self.wo(to_weight_dtype(gated, self.wo))
        return output


class ReLUDense(nn.Module):
    """T5's feed-forward without a gate; a mixin for a class that has its parameters."""

    wi: nn.Linear
    wo: nn.Linear
    dropout: nn.Dropout
    act: nn.Module

    def forward(self, hidden_states: Tensor) -> Tensor:
        """Compute Wo · act(W · x) for every x of `(..., d_model)`."""
        return feed_forward(hidden_states, self.wi, self.act, self.wo, self.dropout)


class FusedT5DenseGatedActDense(GatedGELUDense, T5DenseGatedActDense):
    """T5's gated feed-forward."""


class FusedT5DenseActDense(ReLUDense, T5DenseActDense):
    """T5's feed-forward without a gate."""


class FusedLongT5DenseGatedActDense(GatedGELUDense, LongT5DenseGatedActDense):
    """LongT5's gated feed-forward."""


def bias_table(embedding: nn.Module, num_buckets: int, device: torch.device) -> Tensor:
    """Return T5's table of biases `(num_buckets, heads)`, by the embedding's own forward.

    That copies the table: a checkpointed block must not return a parameter. And its hooks run, by
    which a sharded table is gathered and an offloaded one is loaded.

    Args:
        embedding: Holds the bias of each bucket: `nn.Embedding`, or an adapter around it.
        num_buckets: Number of buckets.
        device: Where the model computes, which an offloaded weight does not tell.
    """
    table: Tensor = embedding(torch.arange(num_buckets, device=device))
    return table
