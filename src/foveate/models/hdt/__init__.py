"""HDT: configuration, layers, models; known to the Auto classes as "hdt"."""

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

from .configuration import HDTConfig
from .encoder_decoder import HDTForConditionalGeneration
from .modeling import (
    HDTEncoder,
    HDTForAnchorClassification,
    HDTForMaskedLM,
    HDTForSequenceClassification,
    HDTModel,
    HDTPreTrainedModel,
)

__all__ = [
    "HDTConfig",
    "HDTEncoder",
    "HDTForAnchorClassification",
    "HDTForConditionalGeneration",
    "HDTForMaskedLM",
    "HDTForSequenceClassification",
    "HDTModel",
    "HDTPreTrainedModel",
]

AutoConfig.register("hdt", HDTConfig)
AutoModel.register(HDTConfig, HDTModel)
AutoModelForMaskedLM.register(HDTConfig, HDTForMaskedLM)
AutoModelForSeq2SeqLM.register(HDTConfig, HDTForConditionalGeneration)
AutoModelForSequenceClassification.register(HDTConfig, HDTForSequenceClassification)
AutoModelForTokenClassification.register(HDTConfig, HDTForAnchorClassification)
AutoProcessor.register(HDTConfig, HDTProcessor)
