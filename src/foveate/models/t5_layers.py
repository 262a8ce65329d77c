"""Layers of T5 that Fovea and VCC share: the same parameters, less time."""

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers.models.t5.modeling_t5 import T5LayerNorm


class FusedRMSNorm(T5LayerNorm):
    """T5's norm in one kernel."""

    def forward(self, hidden_states: Tensor) -> Tensor:
        """Normalize every row: `(..., d_model)` in the dtype of the weights, or a wider one."""
        # Rows can be wider than the weights: T5 keeps some products of float16 models in float32.
        weight = self.weight
        dtype = torch.promote_types(hidden_states.dtype, weight.dtype)
        rows = F.rms_norm(
            hidden_states.to(dtype), weight.shape, weight.to(dtype), self.variance_epsilon
        )
        return rows.to(weight.dtype)
