"""HDT (hdt.txt): configuration, layers, models; known to the Auto classes as "hdt"."""

from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForMaskedLM,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    AutoProcessor,
)

from foveate.processing import Processor

from .configuration import HDTConfig
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
    "HDTForMaskedLM",
    "HDTForSequenceClassification",
    "HDTModel",
    "HDTPreTrainedModel",
]

AutoConfig.register("hdt", HDTConfig)
AutoModel.register(HDTConfig, HDTModel)
AutoModelForMaskedLM.register(HDTConfig, HDTForMaskedLM)
AutoModelForSequenceClassification.register(HDTConfig, HDTForSequenceClassification)
AutoModelForTokenClassification.register(HDTConfig, HDTForAnchorClassification)
AutoProcessor.register(HDTConfig, Processor)
