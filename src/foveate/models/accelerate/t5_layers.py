"""Layers of T5 that Fovea and VCC share: the same parameters, less time."""

from typing import Any

import torch
from torch import Tensor, nn
from transformers import T5Config
from transformers.activations import ACT2FN
from transformers.models.t5.modeling_t5 import (
    T5DenseActDense,
    T5DenseGatedActDense,
    T5LayerFF,
    T5LayerNorm,
    T5PreTrainedModel,
)

from foveate.ops.backends import autocast
from foveate.ops.gated_gelu import gated_gelu
from foveate.ops.rms_norm import rms_norm

_GELU_TANH = tuple(type(ACT2FN[name]) for name in ("gelu_new", "gelu_pytorch_tanh"))
"""Two names, in transformers, for one function."""


class RMSNorm(nn.Module):
    """T5's norm, to be mixed into a class that has its parameters: one kernel each way."""

    weight: nn.Parameter
    variance_epsilon: float

    def forward(self, hidden_states: Tensor) -> Tensor:
        """Normalize every row: `(..., d_model)` in the dtype of the weights, or a wider one."""
        # Rows can be wider than the weights: T5 keeps some products of float16 models in float32.
        weight = self.weight
        dtype = torch.promote_types(hidden_states.dtype, weight.dtype)
        rows = rms_norm(hidden_states.to(dtype), weight.to(dtype), self.variance_epsilon)
        return rows.to(weight.dtype)


class GatedGELUDense(nn.Module):
    """T5's gated feed-forward, to be mixed into a class that has its parameters.

    The activation is one kernel each way, and nothing between the products is kept but their
    results. Gates of other activations compute as the class that this is mixed into.
    """

    wi_0: nn.Linear
    wi_1: nn.Linear
    wo: nn.Linear
    dropout: nn.Dropout
    act: nn.Module

    def forward(self, hidden_states: Tensor) -> Tensor:
        """Wo · (GELU(W0 · x) ∘ (W1 · x)) for every row x, `(..., d_model)`."""
        if not isinstance(self.act, _GELU_TANH):
            outputs: Tensor = super().forward(hidden_states)
            return outputs
        rows = autocast(hidden_states)  # once for both products
        gated: Tensor = self.dropout(gated_gelu(self.wi_0(rows), self.wi_1(rows)))
        return self.wo(_as_weights(gated, self.wo))


def _as_weights(rows: Tensor, linear: Any) -> Tensor:
    """Rows in the dtype of weights that T5 keeps in float32 in models of float16."""
    weight = linear.weight
    if torch.is_autocast_enabled(rows.device.type) or not isinstance(weight, Tensor):
        return rows
    return rows.to(weight.dtype) if weight.is_floating_point() else rows


class FusedRMSNorm(RMSNorm, T5LayerNorm):
    """T5's norm."""


class FusedT5DenseGatedActDense(GatedGELUDense, T5DenseGatedActDense):
    """T5's gated feed-forward."""


class FusedT5LayerFF(T5LayerFF):
    """rows + dropout(feed_forward(norm(rows)))."""

    def __init__(self, config: T5Config) -> None:
        super(T5LayerFF, self).__init__()  # passing over its __init__, which builds T5's parts
        dense: Any = FusedT5DenseGatedActDense if config.is_gated_act else T5DenseActDense
        self.DenseReluDense = dense(config)
        self.layer_norm = FusedRMSNorm(config.d_model, eps=config.layer_norm_epsilon)
        self.dropout = nn.Dropout(config.dropout_rate)


class DerivedT5Model(T5PreTrainedModel):
    """What models that are made of T5's parts share."""

    accepts_loss_kwargs = False  # losses are means, which Trainer divides by the steps it gathers

    @classmethod
    def is_custom_code(cls) -> bool:
        """Say no: T5's initialization does not reach the layers of models outside transformers."""
        return False
