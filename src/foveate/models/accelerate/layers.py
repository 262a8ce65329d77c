"""Norms and feed-forward layers of T5 and LongT5, beside the attention that is accelerated."""

import torch
from torch import Tensor, nn
from transformers.models.longt5.modeling_longt5 import LongT5DenseGatedActDense, LongT5LayerNorm
from transformers.models.t5.modeling_t5 import T5DenseGatedActDense, T5LayerNorm

from foveate.models.accelerate.t5_layers import GatedGELUDense, RMSNorm


class _Norm(RMSNorm):
    """T5's norm, whose mean of squares is of float32 in float64 too."""

    def forward(self, hidden_states: Tensor) -> Tensor:
        """Normalize every row."""
        if hidden_states.dtype == torch.float64:
            outputs: Tensor = super(RMSNorm, self).forward(hidden_states)
            return outputs
        return super().forward(hidden_states)


class FusedT5LayerNorm(_Norm, T5LayerNorm):
    """T5's norm."""


class FusedLongT5LayerNorm(_Norm, LongT5LayerNorm):
    """LongT5's norm."""


class FusedT5Dense(GatedGELUDense, T5DenseGatedActDense):
    """T5's gated feed-forward."""


class FusedLongT5Dense(GatedGELUDense, LongT5DenseGatedActDense):
    """LongT5's gated feed-forward."""


FASTER: dict[type[nn.Module], type[nn.Module]] = {
    T5LayerNorm: FusedT5LayerNorm,
    LongT5LayerNorm: FusedLongT5LayerNorm,
    T5DenseGatedActDense: FusedT5Dense,
    LongT5DenseGatedActDense: FusedLongT5Dense,
}
