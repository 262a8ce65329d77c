"""Read long documents with Transformers that look closely where it matters."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from foveate.documents import Document, DocumentError
    from foveate.models.encoder import DocumentVectors, Encoder
    from foveate.models.hdt import (
        HDTConfig,
        HDTForAnchorClassification,
        HDTForMaskedLM,
        HDTForSequenceClassification,
        HDTModel,
    )
    from foveate.ops.tree_attention import Tree, tree_attention
    from foveate.processing import Processor
    from foveate.tasks.embed import Embeddings, embed
    from foveate.tasks.generate import Generator
    from foveate.tasks.inspect import inspect
    from foveate.tasks.plot import plot_pattern
    from foveate.tasks.search import search
    from foveate.tasks.summarize import summarize

__version__ = "0.1.0"

# Names are loaded when they are first used, so that `import foveate.ops` needs torch alone.
_HOME_OF = {
    "Document": "documents",
    "DocumentError": "documents",
    "DocumentVectors": "models.encoder",
    "Embeddings": "tasks.embed",
    "Encoder": "models.encoder",
    "Generator": "tasks.generate",
    "HDTConfig": "models.hdt",
    "HDTForAnchorClassification": "models.hdt",
    "HDTForMaskedLM": "models.hdt",
    "HDTForSequenceClassification": "models.hdt",
    "HDTModel": "models.hdt",
    "Processor": "processing",
    "Tree": "ops.tree_attention",
    "embed": "tasks.embed",
    "inspect": "tasks.inspect",
    "plot_pattern": "tasks.plot",
    "search": "tasks.search",
    "summarize": "tasks.summarize",
    "tree_attention": "ops.tree_attention",
}

__all__ = [
    "Document",
    "DocumentError",
    "DocumentVectors",
    "Embeddings",
    "Encoder",
    "Generator",
    "HDTConfig",
    "HDTForAnchorClassification",
    "HDTForMaskedLM",
    "HDTForSequenceClassification",
    "HDTModel",
    "Processor",
    "Tree",
    "embed",
    "inspect",
    "plot_pattern",
    "search",
    "summarize",
    "tree_attention",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'foveate' has no attribute {name!r}")
    return getattr(import_module(f"foveate.{_HOME_OF[name]}"), name)


def __dir__() -> list[str]:
    return [*globals(), *_HOME_OF]
