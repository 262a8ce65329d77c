"""Processors that turn documents, queries and targets into model inputs, one per model family.

A processor is the only code that tokenizes for a model, in training, evaluation, the tasks and the
command line alike. It is saved with the checkpoint's weights, and is all that is needed to use
them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .collate import IGNORE_INDEX, Features, pack_passages, pack_trees, pad_features
    from .detector import build_detector
    from .factory import PROCESSORS, load_processor, processor_for
    from .hdt import HDTProcessor
    from .led import LEDProcessor
    from .loading import load_tokenizer
    from .processor import DocumentProcessor
    from .text import TextProcessor
    from .tree_bert import TreeBertProcessor
    from .vcc import VCCProcessor

# Names are loaded when they are first used, because transformers, which the processors need, takes
# seconds to import, and building trees does not need it.
_MODULE_OF = {
    "DocumentProcessor": "processor",
    "Features": "collate",
    "HDTProcessor": "hdt",
    "IGNORE_INDEX": "collate",
    "LEDProcessor": "led",
    "PROCESSORS": "factory",
    "TextProcessor": "text",
    "TreeBertProcessor": "tree_bert",
    "VCCProcessor": "vcc",
    "build_detector": "detector",
    "load_processor": "factory",
    "load_tokenizer": "loading",
    "pack_passages": "collate",
    "pack_trees": "collate",
    "pad_features": "collate",
    "processor_for": "factory",
}

__all__ = [
    "IGNORE_INDEX",
    "PROCESSORS",
    "DocumentProcessor",
    "Features",
    "HDTProcessor",
    "LEDProcessor",
    "TextProcessor",
    "TreeBertProcessor",
    "VCCProcessor",
    "build_detector",
    "load_processor",
    "load_tokenizer",
    "pack_passages",
    "pack_trees",
    "pad_features",
    "processor_for",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_MODULE_OF[name]}", __name__), name)


def __dir__() -> list[str]:
    return [*globals(), *_MODULE_OF]
