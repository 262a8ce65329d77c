"""Layers of T5 that Fovea and VCC share: the same parameters, less time."""

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import T5Config
from transformers.models.t5.modeling_t5 import T5LayerFF, T5LayerNorm, T5PreTrainedModel


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


class FusedT5LayerFF(T5LayerFF):
    """rows + dropout(feed_forward(norm(rows)))."""

    def __init__(self, config: T5Config) -> None:
        super().__init__(config)
        self.layer_norm = FusedRMSNorm(config.d_model, eps=config.layer_norm_epsilon)


class DerivedT5Model(T5PreTrainedModel):
    """What models that are made of T5's parts share."""

    accepts_loss_kwargs = False  # losses are means, which Trainer divides by the steps it gathers

    @classmethod
    def is_custom_code(cls) -> bool:
        """Say no: T5's initialization does not reach the layers of models outside transformers."""
        return False
