"""Fovea: configuration and models, registered with the Auto classes as "fovea"."""

from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForSeq2SeqLM,
    AutoModelForSequenceClassification,
)

from .configuration_fovea import FoveaConfig
from .modeling_fovea import (
    FoveaEncoder,
    FoveaEncoderModel,
    FoveaForConditionalGeneration,
    FoveaForSequenceClassification,
    FoveaPreTrainedModel,
)

__all__ = [
    "FoveaConfig",
    "FoveaEncoder",
    "FoveaEncoderModel",
    "FoveaForConditionalGeneration",
    "FoveaForSequenceClassification",
    "FoveaPreTrainedModel",
]

AutoConfig.register("fovea", FoveaConfig)
AutoModel.register(FoveaConfig, FoveaEncoderModel)
AutoModelForSeq2SeqLM.register(FoveaConfig, FoveaForConditionalGeneration)
AutoModelForSequenceClassification.register(FoveaConfig, FoveaForSequenceClassification)
