"""Read long documents with Transformers that look closely where it matters."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from foveate.documents import Document, DocumentError
    from foveate.inference.encoder import DocumentVectors, Encoder
    from foveate.inference.summarizer import Generator
    from foveate.models.accelerate import accelerate, restore
    from foveate.models.accelerate.cuda_graphs import capture, release
    from foveate.models.fovea import FoveaConfig, FoveaEncoderModel, FoveaForConditionalGeneration
    from foveate.models.hdt import (
        HDTConfig,
        HDTForAnchorClassification,
        HDTForConditionalGeneration,
        HDTForMaskedLM,
        HDTForSequenceClassification,
        HDTModel,
    )
    from foveate.models.vcc import (
        VccBertConfig,
        VccBertForMaskedLM,
        VccBertForMultipleChoice,
        VccBertForQuestionAnswering,
        VccBertForSequenceClassification,
        VccBertModel,
        VccRobertaConfig,
        VccRobertaForMaskedLM,
        VccRobertaForMultipleChoice,
        VccRobertaForQuestionAnswering,
        VccRobertaForSequenceClassification,
        VccRobertaModel,
        VccT5Config,
        VccT5EncoderModel,
        VccT5ForConditionalGeneration,
    )
    from foveate.ops.tree_attention import Tree, tree_attention
    from foveate.preprocessing.hdt import HDTProcessor
    from foveate.preprocessing.led import LEDProcessor
    from foveate.preprocessing.vcc import VCCProcessor
    from foveate.tasks.ask import ask
    from foveate.tasks.embed import Embeddings, embed
    from foveate.tasks.inspect import inspect
    from foveate.tasks.keywords import keywords
    from foveate.tasks.plots.tree import plot_pattern
    from foveate.tasks.search import search
    from foveate.tasks.summarize import summarize
    from foveate.training.recipe import Recipe
    from foveate.training.run import train

__version__ = "0.1.0"

# Names are loaded when they are first used, so that `import foveate.ops` needs torch alone.
_HOME_OF = {
    "Document": "documents",
    "DocumentError": "documents",
    "DocumentVectors": "inference.encoder",
    "Embeddings": "tasks.embed",
    "Encoder": "inference.encoder",
    "FoveaConfig": "models.fovea",
    "FoveaEncoderModel": "models.fovea",
    "FoveaForConditionalGeneration": "models.fovea",
    "Generator": "inference.summarizer",
    "HDTConfig": "models.hdt",
    "HDTForAnchorClassification": "models.hdt",
    "HDTForConditionalGeneration": "models.hdt",
    "HDTForMaskedLM": "models.hdt",
    "HDTForSequenceClassification": "models.hdt",
    "HDTModel": "models.hdt",
    "LEDProcessor": "preprocessing.led",
    "HDTProcessor": "preprocessing",
    "Recipe": "training.recipe",
    "Tree": "ops.tree_attention",
    "VccBertConfig": "models.vcc",
    "VccBertForMaskedLM": "models.vcc",
    "VccBertForMultipleChoice": "models.vcc",
    "VccBertForQuestionAnswering": "models.vcc",
    "VccBertForSequenceClassification": "models.vcc",
    "VccBertModel": "models.vcc",
    "VccRobertaConfig": "models.vcc",
    "VccRobertaForMaskedLM": "models.vcc",
    "VccRobertaForMultipleChoice": "models.vcc",
    "VccRobertaForQuestionAnswering": "models.vcc",
    "VccRobertaForSequenceClassification": "models.vcc",
    "VccRobertaModel": "models.vcc",
    "VccT5Config": "models.vcc",
    "VccT5EncoderModel": "models.vcc",
    "VccT5ForConditionalGeneration": "models.vcc",
    "VCCProcessor": "preprocessing.vcc",
    "accelerate": "models.accelerate",
    "ask": "tasks.ask",
    "capture": "models.accelerate.cuda_graphs",
    "embed": "tasks.embed",
    "inspect": "tasks.inspect",
    "keywords": "tasks.keywords",
    "plot_pattern": "tasks.plots.tree",
    "release": "models.accelerate.cuda_graphs",
    "restore": "models.accelerate",
    "search": "tasks.search",
    "summarize": "tasks.summarize",
    "train": "training.run",
    "tree_attention": "ops.tree_attention",
}

__all__ = [
    "Document",
    "DocumentError",
    "DocumentVectors",
    "Embeddings",
    "Encoder",
    "FoveaConfig",
    "FoveaEncoderModel",
    "FoveaForConditionalGeneration",
    "Generator",
    "HDTConfig",
    "HDTForAnchorClassification",
    "HDTForConditionalGeneration",
    "HDTForMaskedLM",
    "HDTForSequenceClassification",
    "HDTModel",
    "HDTProcessor",
    "LEDProcessor",
    "Recipe",
    "Tree",
    "VCCProcessor",
    "VccBertConfig",
    "VccBertForMaskedLM",
    "VccBertForMultipleChoice",
    "VccBertForQuestionAnswering",
    "VccBertForSequenceClassification",
    "VccBertModel",
    "VccRobertaConfig",
    "VccRobertaForMaskedLM",
    "VccRobertaForMultipleChoice",
    "VccRobertaForQuestionAnswering",
    "VccRobertaForSequenceClassification",
    "VccRobertaModel",
    "VccT5Config",
    "VccT5EncoderModel",
    "VccT5ForConditionalGeneration",
    "accelerate",
    "ask",
    "capture",
    "embed",
    "inspect",
    "keywords",
    "plot_pattern",
    "release",
    "restore",
    "search",
    "summarize",
    "train",
    "tree_attention",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'foveate' has no attribute {name!r}")
    return getattr(import_module(f"foveate.{_HOME_OF[name]}"), name)


def __dir__() -> list[str]:
    return [*globals(), *_HOME_OF]
