"""What a model is to learn: which rows an example makes, how they are collated, and the loss."""

from .base import Objective
from .choosing import Classification, MultipleChoice, Span
from .contrast import Contrast
from .denoising import MaskedLM, MixtureOfDenoisers, SpanCorruption
from .writing import SequenceToSequence

__all__ = [
    "OBJECTIVES",
    "Classification",
    "Contrast",
    "MaskedLM",
    "MixtureOfDenoisers",
    "MultipleChoice",
    "Objective",
    "SequenceToSequence",
    "Span",
    "SpanCorruption",
]

OBJECTIVES: dict[str, type[Objective]] = {
    "masked_lm": MaskedLM,
    "span_corruption": SpanCorruption,
    "mixture_of_denoisers": MixtureOfDenoisers,
    "contrast": Contrast,
    "sequence_to_sequence": SequenceToSequence,
    "classification": Classification,
    "span": Span,
    "multiple_choice": MultipleChoice,
}
"""Names that recipes use."""
