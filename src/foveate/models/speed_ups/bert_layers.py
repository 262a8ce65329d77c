"""What surrounds attention in BERT, RoBERTa and Longformer: the same parameters in less time."""

from torch import Tensor, nn
from transformers.models.bert.modeling_bert import BertOutput, BertSelfOutput
from transformers.models.longformer.modeling_longformer import (
    LongformerOutput,
    LongformerSelfOutput,
)
from transformers.models.roberta.modeling_roberta import (
    RobertaOutput,
    RobertaSelfOutput,
)

from foveate.models.projections import add_and_norm, drop

from .patching import Patch


class ResidualOutput(nn.Module):
    """A projection, the residual connection and its norm; a mixin for a class with these parts."""

    dense: nn.Linear
    LayerNorm: nn.LayerNorm
    dropout: nn.Dropout

    def forward(self, hidden_states: Tensor, input_tensor: Tensor) -> Tensor:
        """Project `(..., in_features)`, add the input of the layer and normalize."""
        update = drop(self.dropout, self.dense(hidden_states))
        return add_and_norm(input_tensor, update, self.LayerNorm)


class FusedLongformerSelfOutput(ResidualOutput, LongformerSelfOutput):
    """What follows Longformer's attention."""


class FusedLongformerOutput(ResidualOutput, LongformerOutput):
    """The second half of Longformer's feed-forward layer."""


class FusedBertSelfOutput(ResidualOutput, BertSelfOutput):
    """What follows BERT's attention."""


class FusedBertOutput(ResidualOutput, BertOutput):
    """The second half of BERT's feed-forward layer."""


class FusedRobertaSelfOutput(ResidualOutput, RobertaSelfOutput):
    """What follows RoBERTa's attention."""


class FusedRobertaOutput(ResidualOutput, RobertaOutput):
    """The second half of RoBERTa's feed-forward layer."""


LONGFORMER_PATCHES = (
    Patch(LongformerSelfOutput, FusedLongformerSelfOutput),
    Patch(LongformerOutput, FusedLongformerOutput),
)

BERT_PATCHES = (
    Patch(BertSelfOutput, FusedBertSelfOutput),
    Patch(BertOutput, FusedBertOutput),
    Patch(RobertaSelfOutput, FusedRobertaSelfOutput),
    Patch(RobertaOutput, FusedRobertaOutput),
)
