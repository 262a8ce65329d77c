"""A loaded model with a purpose: encode, summarize, answer."""

from .answerer import Answerer
from .default_model import default_model_path
from .encoder import DocumentVectors, Encoder, as_encoder, as_encoder_or
from .summarizer import Summarizer

__all__ = [
    "Answerer",
    "DocumentVectors",
    "Encoder",
    "Summarizer",
    "as_encoder",
    "as_encoder_or",
    "default_model_path",
]
