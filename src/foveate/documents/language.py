"""The language of a text."""

import re
from collections.abc import Iterable
from functools import cache
from typing import Any

from foveate.documents.words import load_words

_SAMPLE = 20_000  # characters that decide
_MIN_LETTERS = 30  # shorter texts say too little
_MIN_PROBABILITY = 0.8
FALLBACK = "en"
_WORDS = load_words("languages")
_ALIKE = {language: rare.split() for language, rare in _WORDS["alike"].items()}
_ENGLISH = frozenset(_WORDS["english"].split())

_MIN_ENGLISH = 0.07  # share of the letters in these words: in running text some 0.1
_MAX_OTHER_LETTERS = 0.03  # share of the text that is letters such as ä or 鱼
_DIVIDED = 600  # characters of a text whose parts must all be English, since texts may be mixed
_WORD = re.compile("[a-z]+")


def detect_language(text: str) -> str:
    """Detect the language of a text: English by its words, others by their letters, with py3langid.

    Args:
        text: The text, without markup. The first 20,000 characters decide.

    Returns:
        ISO 639 code, such as "en" or "zh"; "en" if the text is too short or mixed to tell.

    Raises:
        ValueError: There is no room for temporary files, to which py3langid unpacks its model.
    """
    sample = text[:_SAMPLE]
    if sum(map(str.isalpha, sample)) < _MIN_LETTERS and sample.isascii():
        return FALLBACK
    if _is_english(sample):
        return "en"
    ranked = _identifier().rank(sample)
    language = "zh" if ranked[0][0] in _ALIKE["zh"] else str(ranked[0][0])
    alike = (language, *_ALIKE.get(language, ()))
    probability = sum(share for name, share in ranked if name in alike)
    return language if probability >= _MIN_PROBABILITY else FALLBACK


def detect_language_of(texts: Iterable[str]) -> str:
    """Detect the language of the first of many texts; see `detect_language`."""
    sample: list[str] = []
    room = _SAMPLE
    for text in texts:
        sample.append(text)
        room -= len(text)
        if room <= 0:
            break
    return detect_language("\n".join(sample))


def _is_english(text: str) -> bool:
    """Return whether a text is clearly English, which saves loading the model for all languages."""
    text = text.lower()
    others = sum(x.isalpha() for x in text if not x.isascii())
    if others > _MAX_OTHER_LETTERS * len(text):
        return False
    size = len(text) if len(text) < _DIVIDED else -(-len(text) // 3)
    return all(
        _has_english_words(text[start : start + size]) for start in range(0, len(text), size)
    )


def _has_english_words(text: str) -> bool:
    words = _WORD.findall(text)
    found = [word for word in words if word in _ENGLISH]
    enough = sum(map(len, found)) >= _MIN_ENGLISH * sum(map(len, words))
    return enough and len(set(found)) >= 3


@cache
def _identifier() -> Any:
    # Imported late: models import documents, and must run with torch alone installed.
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    try:
        return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    except OSError as error:  # which would be taken for one of the file that is read
        raise ValueError(
            f"languages cannot be detected, because py3langid cannot unpack its model ({error}): "
            "free some space for temporary files, or set TMPDIR to a folder that has some"
        ) from error
