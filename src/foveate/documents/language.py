"""The language of a text."""

from functools import cache
from typing import Any

SAMPLE = 20_000  # characters that decide
_MIN_LETTERS = 30  # shorter texts say too little
_MIN_PROBABILITY = 0.8
FALLBACK = "en"
_CHINESE = frozenset(("zh", "wuu", "yue"))  # short texts look alike in all of them


def detect_language(text: str) -> str:
    """Detect the language of a text by its letters, with py3langid.

    Args:
        text: The text, without markup. The first 20,000 characters decide.

    Returns:
        ISO 639 code, such as "en" or "zh"; "en" if the text is too short or mixed to tell.

    Raises:
        ValueError: There is no room for temporary files, to which py3langid unpacks its model.
    """
    sample = text[:SAMPLE]
    if sum(map(str.isalpha, sample)) < _MIN_LETTERS and sample.isascii():
        return FALLBACK
    ranked = _identifier().rank(sample)
    language, probability = ranked[0]
    if language in _CHINESE:
        language = "zh"
        probability = sum(share for name, share in ranked if name in _CHINESE)
    return str(language) if probability >= _MIN_PROBABILITY else FALLBACK


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
