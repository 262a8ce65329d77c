"""Keyword detectors as plain data, as recipes and saved processors specify them."""

from collections.abc import Mapping
from functools import partial
from inspect import signature
from typing import Any

from foveate.data.records import check_texts
from foveate.detectors import Detector, Keyword, detector_by_name, given_keywords
from foveate.documents import Document


def build_detector(detector: str | Mapping[str, Any], *, language: str = "en") -> Detector:
    """Build a detector from its name, or from a mapping with its name and options.

    The options are the keyword arguments of the detector's function in `foveate.detectors`:
    `max_words` ("phrases"), `seed` ("random", "gibberish") and `keywords` ("given").

    Args:
        detector: "given", a name of `foveate.detectors.METHODS`, or a mapping such as
            `{"name": "phrases", "max_words": 2}`.
        language: ISO 639 code of the documents' language.

    Raises:
        ValueError: There is no such detector, or it has no such option.

    Example:
        >>> from foveate.documents import Document
        >>> detect = build_detector({"name": "given", "keywords": ["cod", "herring"]})
        >>> [keyword.text for keyword in detect(Document.from_text("Cod swim."), 2)]
        ['cod', 'herring']
    """
    options: dict[str, Any] = {"name": detector} if isinstance(detector, str) else dict(detector)
    name = options.pop("name", None)
    if name == "given":
        keywords = check_texts(options.get("keywords"), "keywords of the detector 'given'")
        given_keywords(keywords)  # rejects empty ones
        return partial(_given, keywords=keywords)
    detect = detector_by_name(name, language=language)
    try:
        signature(detect).bind(None, None, **options)
    except TypeError as error:
        raise ValueError(f"the detector {name!r} {error}") from error
    return partial(detect, **options)


def _given(document: Document, top_k: int, *, keywords: tuple[str, ...]) -> list[Keyword]:
    """Run `foveate.detectors.given_keywords`, as a function that data loading workers can load."""
    return given_keywords(keywords)(document, top_k)
