"""Keyword detectors as plain data, as recipes and saved processors specify them."""

from collections.abc import Collection, Mapping
from functools import partial
from inspect import Parameter, signature
from typing import Any

from foveate.data.records import check_texts
from foveate.detectors import METHODS, Detector, Keyword, detector_by_name, given_keywords
from foveate.documents import Document

DETECTORS = (*METHODS, "given")
"""The names of detectors."""


def build_detector(detector: str | Mapping[str, Any], *, language: str = "en") -> Detector:
    """Build a detector from its name, or from a mapping with its name and options.

    The options are the keyword arguments of the detector's function in `foveate.detectors`:
    `max_words` ("phrases"), `seed` ("random", "gibberish") and `keywords` ("given").

    Args:
        detector: One of `DETECTORS`, or a mapping such as `{"name": "phrases", "max_words": 2}`.
        language: ISO 639 code of the documents' language.

    Raises:
        ValueError: There is no such detector, it has no such option, or the option has another
            type or is out of range.

    Example:
        >>> from foveate.documents import Document
        >>> detect = build_detector({"name": "given", "keywords": ["cod", "herring"]})
        >>> [keyword.text for keyword in detect(Document.from_text("Cod swim."), 2)]
        ['cod', 'herring']
    """
    options: dict[str, Any] = {"name": detector} if isinstance(detector, str) else dict(detector)
    name = options.pop("name", None)
    if name == "given":
        _check_names(name, options, ("keywords",))
        if "keywords" not in options:
            raise ValueError("the detector 'given' needs keywords: give a list of them")
        keywords = check_texts(options["keywords"], "keywords")
        given_keywords(keywords)  # rejects empty ones
        return partial(_given, keywords=keywords)
    if name not in DETECTORS:
        raise ValueError(f"there is no detector {name!r}: name one of {', '.join(DETECTORS)}")
    detect = detector_by_name(name, language=language)
    known = {
        parameter.name: parameter.default
        for parameter in signature(detect).parameters.values()
        if parameter.kind is Parameter.KEYWORD_ONLY and parameter.name != "language"
    }
    _check_names(name, options, known)
    for option, value in options.items():
        _check_type(option, value, type(known[option]))
    if options.get("max_words", 1) < 1:
        raise ValueError(f"the detector's max_words must be at least 1, got {options['max_words']}")
    return partial(detect, **options)


def _given(document: Document, top_k: int, *, keywords: tuple[str, ...]) -> list[Keyword]:
    """Run `foveate.detectors.given_keywords`, as a function that data loading workers can load."""
    return given_keywords(keywords)(document, top_k)


def _check_names(name: str, options: Mapping[str, Any], known: Collection[str]) -> None:
    for option in options:
        if option not in known:
            others = f"its options are {', '.join(known)}" if known else "it has none"
            raise ValueError(f"the detector {name!r} has no option {option!r}: {others}")


def _check_type(option: str, value: Any, kind: type) -> None:
    if not isinstance(value, kind) or isinstance(value, bool):
        raise ValueError(f"the detector's {option} must be of type {kind.__name__}, got {value!r}")
