"""Fovea: configuration, layers, models; known to the Auto classes as "fovea"."""

from transformers import AutoConfig, AutoModel, AutoModelForSeq2SeqLM

from .attention import FOVEA_ATTENTION, register
from .configuration import FoveaConfig
from .modeling import (
    FoveaEncoder,
    FoveaEncoderModel,
    FoveaForConditionalGeneration,
    FoveaPreTrainedModel,
)

__all__ = [
    "FOVEA_ATTENTION",
    "FoveaConfig",
    "FoveaEncoder",
    "FoveaEncoderModel",
    "FoveaForConditionalGeneration",
    "FoveaPreTrainedModel",
]

AutoConfig.register("fovea", FoveaConfig)
AutoModel.register(FoveaConfig, FoveaEncoderModel)
AutoModelForSeq2SeqLM.register(FoveaConfig, FoveaForConditionalGeneration)
register()
