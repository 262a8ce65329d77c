"""HDT: configuration and models, registered with the Auto classes as "hdt"."""

from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForMaskedLM,
    AutoModelForSeq2SeqLM,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    AutoProcessor,
)

from foveate.preprocessing.hdt import HDTProcessor

from .configuration_hdt import HDTConfig
from .modeling_hdt import (
    HDTEncoder,
    HDTForMaskedLM,
    HDTForSequenceClassification,
    HDTForTokenClassification,
    HDTModel,
    HDTPreTrainedModel,
)
from .modeling_hdt_ed import HDTForConditionalGeneration, HDTMemory

__all__ = [
    "HDTConfig",
    "HDTEncoder",
    "HDTForConditionalGeneration",
    "HDTForMaskedLM",
    "HDTForSequenceClassification",
    "HDTForTokenClassification",
    "HDTMemory",
    "HDTModel",
    "HDTPreTrainedModel",
]

AutoConfig.register("hdt", HDTConfig)
AutoModel.register(HDTConfig, HDTModel)
AutoModelForMaskedLM.register(HDTConfig, HDTForMaskedLM)
AutoModelForSeq2SeqLM.register(HDTConfig, HDTForConditionalGeneration)
AutoModelForSequenceClassification.register(HDTConfig, HDTForSequenceClassification)
AutoModelForTokenClassification.register(HDTConfig, HDTForTokenClassification)
AutoProcessor.register(HDTConfig, HDTProcessor)
