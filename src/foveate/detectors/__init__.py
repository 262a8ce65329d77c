"""Keywords of a document, by several detectors behind one interface."""

from .controls import gibberish, given, random_words
from .embedding import embedding
from .keyword import Detector, Keyword, Occurrence
from .tfidf import tfidf
from .yake import yake

__all__ = [
    "Detector",
    "Keyword",
    "Occurrence",
    "embedding",
    "gibberish",
    "given",
    "random_words",
    "tfidf",
    "yake",
]
