"""Keywords of a document, from several detectors with one interface."""

from foveate.detectors.controls import gibberish, given_keywords, random_words
from foveate.detectors.embedding import embedding
from foveate.detectors.factory import METHODS, detector_by_name
from foveate.detectors.keyword import Detector, Keyword
from foveate.detectors.phrases import phrases
from foveate.detectors.statistical import tfidf, yake

__all__ = [
    "METHODS",
    "Detector",
    "Keyword",
    "detector_by_name",
    "embedding",
    "gibberish",
    "given_keywords",
    "phrases",
    "random_words",
    "tfidf",
    "yake",
]
