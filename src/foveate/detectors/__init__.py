"""Keywords of a document, from several detectors with one interface."""

from foveate.detectors.controls import gibberish, given_keywords, random_words
from foveate.detectors.factory import METHODS, detector_by_name
from foveate.detectors.keyword import Detector, Keyword
from foveate.detectors.phrases import phrases
from foveate.detectors.statistical import tfidf

__all__ = [
    "METHODS",
    "Detector",
    "Keyword",
    "detector_by_name",
    "gibberish",
    "given_keywords",
    "phrases",
    "random_words",
    "tfidf",
]
