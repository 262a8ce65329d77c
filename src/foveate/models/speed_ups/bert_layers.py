"""What surrounds attention in BERT, RoBERTa and Longformer: the same parameters in less time."""

from collections.abc import Callable

from torch import Tensor, nn
from transformers.models.bert.modeling_bert import BertIntermediate, BertOutput, BertSelfOutput
from transformers.models.longformer.modeling_longformer import (
    LongformerIntermediate,
    LongformerOutput,
    LongformerSelfOutput,
)
from transformers.models.roberta.modeling_roberta import (
    RobertaIntermediate,
    RobertaOutput,
    RobertaSelfOutput,
)

from foveate.models.projections import add_and_norm, drop, project

from .patching import Patch


class ResidualOutput(nn.Module):
    """A projection, the residual connection and its norm; a mixin for a class with these parts."""

    dense: nn.Linear
    LayerNorm: nn.LayerNorm
    dropout: nn.Dropout

    def forward(self, hidden_states: Tensor, input_tensor: Tensor) -> Tensor:
        """Project `(..., in_features)`, add the input of the layer and normalize."""
        (update,) = project(hidden_states, self.dense)
        return add_and_norm(input_tensor, drop(self.dropout, update), self.LayerNorm)


class Intermediate(nn.Module):
    """A projection and its activation; a mixin for a class with these parts."""

    dense: nn.Linear
    intermediate_act_fn: Callable[[Tensor], Tensor]

    def forward(self, hidden_states: Tensor) -> Tensor:
        """Project `(..., hidden_size)`."""
        (inner,) = project(hidden_states, self.dense)
        return self.intermediate_act_fn(inner)


class FusedLongformerSelfOutput(ResidualOutput, LongformerSelfOutput):
    """What follows Longformer's attention."""


class FusedLongformerIntermediate(Intermediate, LongformerIntermediate):
    """The first half of Longformer's feed-forward layer."""


class FusedLongformerOutput(ResidualOutput, LongformerOutput):
    """The second half of Longformer's feed-forward layer."""


class FusedBertSelfOutput(ResidualOutput, BertSelfOutput):
    """What follows BERT's attention."""


class FusedBertIntermediate(Intermediate, BertIntermediate):
    """The first half of BERT's feed-forward layer."""


class FusedBertOutput(ResidualOutput, BertOutput):
    """The second half of BERT's feed-forward layer."""


class FusedRobertaSelfOutput(ResidualOutput, RobertaSelfOutput):
    """What follows RoBERTa's attention."""


class FusedRobertaIntermediate(Intermediate, RobertaIntermediate):
    """The first half of RoBERTa's feed-forward layer."""


class FusedRobertaOutput(ResidualOutput, RobertaOutput):
    """The second half of RoBERTa's feed-forward layer."""


LONGFORMER_PATCHES = (
    Patch(LongformerSelfOutput, FusedLongformerSelfOutput),
    Patch(LongformerIntermediate, FusedLongformerIntermediate),
    Patch(LongformerOutput, FusedLongformerOutput),
)

BERT_PATCHES = (
    Patch(BertSelfOutput, FusedBertSelfOutput),
    Patch(BertIntermediate, FusedBertIntermediate),
    Patch(BertOutput, FusedBertOutput),
    Patch(RobertaSelfOutput, FusedRobertaSelfOutput),
    Patch(RobertaIntermediate, FusedRobertaIntermediate),
    Patch(RobertaOutput, FusedRobertaOutput),
)
