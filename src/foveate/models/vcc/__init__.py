"""VCC for T5, BERT and RoBERTa: configurations and models, registered with the Auto classes."""

from typing import Any

from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForMaskedLM,
    AutoModelForMultipleChoice,
    AutoModelForQuestionAnswering,
    AutoModelForSeq2SeqLM,
    AutoModelForSequenceClassification,
)

from .configuration_vcc import VccBertConfig, VccRobertaConfig, VccT5Config
from .modeling_vcc_bert import (
    VccBertForMaskedLM,
    VccBertForMultipleChoice,
    VccBertForQuestionAnswering,
    VccBertForSequenceClassification,
    VccBertModel,
    VccRobertaForMaskedLM,
    VccRobertaForMultipleChoice,
    VccRobertaForQuestionAnswering,
    VccRobertaForSequenceClassification,
    VccRobertaModel,
)
from .modeling_vcc_shared import VccEncoderOutput
from .modeling_vcc_t5 import VccT5EncoderModel, VccT5ForConditionalGeneration

__all__ = [
    "VccBertConfig",
    "VccBertForMaskedLM",
    "VccBertForMultipleChoice",
    "VccBertForQuestionAnswering",
    "VccBertForSequenceClassification",
    "VccBertModel",
    "VccEncoderOutput",
    "VccRobertaConfig",
    "VccRobertaForMaskedLM",
    "VccRobertaForMultipleChoice",
    "VccRobertaForQuestionAnswering",
    "VccRobertaForSequenceClassification",
    "VccRobertaModel",
    "VccT5Config",
    "VccT5EncoderModel",
    "VccT5ForConditionalGeneration",
]

for _config in (VccBertConfig, VccRobertaConfig, VccT5Config):
    AutoConfig.register(_config.model_type, _config)
_AUTO: dict[Any, list[Any]] = {
    AutoModel: [VccBertModel, VccRobertaModel, VccT5EncoderModel],
    AutoModelForMaskedLM: [VccBertForMaskedLM, VccRobertaForMaskedLM],
    AutoModelForMultipleChoice: [VccBertForMultipleChoice, VccRobertaForMultipleChoice],
    AutoModelForQuestionAnswering: [VccBertForQuestionAnswering, VccRobertaForQuestionAnswering],
    AutoModelForSeq2SeqLM: [VccT5ForConditionalGeneration],
    AutoModelForSequenceClassification: [
        VccBertForSequenceClassification,
        VccRobertaForSequenceClassification,
    ],
}
for _auto, _models in _AUTO.items():
    for _model in _models:
        _auto.register(_model.config_class, _model)
