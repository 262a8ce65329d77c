"""VCC for T5, BERT and RoBERTa: configurations and models, registered with the Auto classes."""

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
    VccBertModel,
    VccRobertaForMaskedLM,
    VccRobertaForQuestionAnswering,
    VccRobertaForSequenceClassification,
    VccRobertaModel,
)
from .modeling_vcc_questions import (
    AutoModelForHotpotQA,
    VccRobertaForHotpotQA,
    VccRobertaForMultipleChoice,
)
from .modeling_vcc_shared import VccEncoderOutput
from .modeling_vcc_t5 import VccT5EncoderModel, VccT5ForConditionalGeneration

__all__ = [
    "AutoModelForHotpotQA",
    "VccBertConfig",
    "VccBertModel",
    "VccEncoderOutput",
    "VccRobertaConfig",
    "VccRobertaForHotpotQA",
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
AutoModel.register(VccBertConfig, VccBertModel)
AutoModel.register(VccRobertaConfig, VccRobertaModel)
AutoModel.register(VccT5Config, VccT5EncoderModel)
AutoModelForHotpotQA.register(VccRobertaConfig, VccRobertaForHotpotQA)
AutoModelForMaskedLM.register(VccRobertaConfig, VccRobertaForMaskedLM)
AutoModelForMultipleChoice.register(VccRobertaConfig, VccRobertaForMultipleChoice)
AutoModelForQuestionAnswering.register(VccRobertaConfig, VccRobertaForQuestionAnswering)
AutoModelForSeq2SeqLM.register(VccT5Config, VccT5ForConditionalGeneration)
AutoModelForSequenceClassification.register(VccRobertaConfig, VccRobertaForSequenceClassification)
