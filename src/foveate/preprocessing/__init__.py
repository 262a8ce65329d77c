"""Documents, with a query and targets, into model inputs: one processor for each model family.

A processor is the only code that tokenizes for a model, in training, evaluation, the tasks and the
command line alike. It is saved beside the checkpoint's weights and is enough to use them.
"""

from .collate import IGNORE_INDEX, Features, pack_trees, pad_features
from .detector import DETECTORS, build_detector
from .factory import PROCESSORS, load_processor, load_tokenizer, processor_for
from .hdt import HDTProcessor
from .led import LEDProcessor
from .processor import DocumentProcessor
from .text import TextProcessor
from .tree_bert import TreeBertProcessor
from .vcc import VCCProcessor

__all__ = [
    "DETECTORS",
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
    "pack_trees",
    "pad_features",
    "processor_for",
]
