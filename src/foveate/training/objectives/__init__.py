"""Training objectives: the features of an example, their collation, and the loss."""

from .anchor_classification import AnchorClassification
from .base import Objective
from .classification import Classification, MultipleChoice
from .contrastive import Contrastive
from .masked_lm import MaskedLM
from .question_answering import HotpotQA, QuestionAnswering
from .retrieval import Retrieval
from .seq2seq import SequenceToSequence
from .span_corruption import MixtureOfDenoisers, SpanCorruption

__all__ = [
    "OBJECTIVES",
    "AnchorClassification",
    "Classification",
    "Contrastive",
    "HotpotQA",
    "MaskedLM",
    "MixtureOfDenoisers",
    "MultipleChoice",
    "Objective",
    "QuestionAnswering",
    "Retrieval",
    "SequenceToSequence",
    "SpanCorruption",
]

OBJECTIVES: dict[str, type[Objective]] = {
    "masked_lm": MaskedLM,
    "span_corruption": SpanCorruption,
    "mixture_of_denoisers": MixtureOfDenoisers,
    "contrastive": Contrastive,
    "retrieval": Retrieval,
    "sequence_to_sequence": SequenceToSequence,
    "classification": Classification,
    "anchor_classification": AnchorClassification,
    "question_answering": QuestionAnswering,
    "multiple_choice": MultipleChoice,
    "hotpotqa": HotpotQA,
}
"""The names of objectives in recipes."""
