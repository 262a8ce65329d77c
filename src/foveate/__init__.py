"""Read long documents with Transformers that look closely where it matters."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from foveate.detectors import Keyword
    from foveate.documents import Document, DocumentError, Span, read_documents
    from foveate.index import Index
    from foveate.inference import LLM, DocumentVectors, Encoder
    from foveate.tasks.ask import Answer, ask
    from foveate.tasks.citations import Written, WrittenSentence
    from foveate.tasks.context import Prompt, context
    from foveate.tasks.embed import EmbeddedSpan, Embeddings, embed
    from foveate.tasks.hits import Hit, WordMatch
    from foveate.tasks.inspect import Inspection, inspect
    from foveate.tasks.keywords import keywords
    from foveate.tasks.search import search
    from foveate.tasks.summarize import Summary, summarize
    from foveate.tasks.write import write_answer, write_summary
    from foveate.training import train

__version__ = "0.1.0"

# Names are loaded when they are first used, so that `import foveate.ops` needs torch alone.
_MODULE_OF = {
    "LLM": "inference",
    "Answer": "tasks.ask",
    "Document": "documents",
    "DocumentError": "documents",
    "DocumentVectors": "inference",
    "EmbeddedSpan": "tasks.embed",
    "Embeddings": "tasks.embed",
    "Encoder": "inference",
    "Hit": "tasks.hits",
    "Index": "index",
    "Inspection": "tasks.inspect",
    "Keyword": "detectors",
    "Prompt": "tasks.context",
    "Span": "documents",
    "Summary": "tasks.summarize",
    "WordMatch": "tasks.hits",
    "Written": "tasks.citations",
    "WrittenSentence": "tasks.citations",
    "ask": "tasks.ask",
    "context": "tasks.context",
    "embed": "tasks.embed",
    "inspect": "tasks.inspect",
    "keywords": "tasks.keywords",
    "read_documents": "documents",
    "search": "tasks.search",
    "summarize": "tasks.summarize",
    "train": "training",
    "write_answer": "tasks.write",
    "write_summary": "tasks.write",
}

__all__ = [
    "LLM",
    "Answer",
    "Document",
    "DocumentError",
    "DocumentVectors",
    "EmbeddedSpan",
    "Embeddings",
    "Encoder",
    "Hit",
    "Index",
    "Inspection",
    "Keyword",
    "Prompt",
    "Span",
    "Summary",
    "WordMatch",
    "Written",
    "WrittenSentence",
    "ask",
    "context",
    "embed",
    "inspect",
    "keywords",
    "read_documents",
    "search",
    "summarize",
    "train",
    "write_answer",
    "write_summary",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'foveate' has no attribute {name!r}")
    return getattr(import_module(f"foveate.{_MODULE_OF[name]}"), name)


def __dir__() -> list[str]:
    return [*globals(), *_MODULE_OF]
