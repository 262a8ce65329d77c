"""Models for inference: encode, summarize or answer, or write on a server."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .default_model import default_model_path

if TYPE_CHECKING:
    from .answerer import Answerer
    from .encoder import Encoder, as_encoder, as_encoder_or
    from .llm import LLM
    from .runner import DocumentVectors
    from .summarizer import Summarizer

__all__ = [
    "LLM",
    "Answerer",
    "DocumentVectors",
    "Encoder",
    "Summarizer",
    "as_encoder",
    "as_encoder_or",
    "default_model_path",
]

# Loaded when they are first used, because torch and their models take seconds to import.
_MODULE_OF = {
    "LLM": "llm",
    "Answerer": "answerer",
    "DocumentVectors": "runner",
    "Encoder": "encoder",
    "Summarizer": "summarizer",
    "as_encoder": "encoder",
    "as_encoder_or": "encoder",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_MODULE_OF[name]}", __name__), name)
