"""The languages that an encoder was trained on, and a warning about all others."""

import re
import warnings
from collections.abc import Collection, Iterable
from functools import cache
from os import PathLike

import yaml

from foveate.checkpoints import checkpoint_file
from foveate.documents import Document

MULTILINGUAL_ENCODER = "intfloat/multilingual-e5-small"

_FRONT_MATTER = re.compile(r"\s*---\n(.*?)\n---(?:\n|$)", re.DOTALL)
_SAME_LANGUAGE = 10  # greatest `langcodes` distance between codes of one language: no and nb


def trained_languages(name_or_path: str | PathLike[str]) -> frozenset[str] | None:
    """Read from a checkpoint's model card which languages it was trained on.

    Returns:
        ISO 639 codes; None if there is no card, or if it names no languages or calls the model
        multilingual.
    """
    card = checkpoint_file(name_or_path, "README.md")
    if card is None:
        return None
    try:  # cards are written for people, and may be malformed
        front = _FRONT_MATTER.match(card.read_text(encoding="utf-8"))
        metadata = yaml.safe_load(front[1]) if front else None
    except (ValueError, yaml.YAMLError):
        return None
    stated = metadata.get("language") if isinstance(metadata, dict) else None
    codes = [stated] if isinstance(stated, str) else stated
    if not isinstance(codes, list) or not codes or "multilingual" in codes:
        return None
    return frozenset(map(str, codes))


def warn_of_languages(documents: Iterable[Document], trained: Collection[str] | None) -> None:
    """Warn, once per process and language, of documents in languages not used in training.

    Args:
        documents: Documents.
        trained: Codes of the languages that the encoder was trained on; None if unknown.

    Warns:
        UserWarning: There is such a language.
    """
    if trained is None:
        return
    for language in dict.fromkeys(document.language for document in documents):
        if language is not None and not _is_one_of(language, frozenset(trained)):
            _warn_of_language(language)


@cache
def _is_one_of(language: str, trained: frozenset[str]) -> bool:
    if language in trained:
        return True
    import langcodes  # takes a moment, and is seldom needed
    from langcodes.tag_parser import LanguageTagError

    try:
        match = langcodes.closest_supported_match(language, [*trained], max_distance=_SAME_LANGUAGE)
    except LanguageTagError:  # a code that langcodes does not know, on either side
        return False
    return match is not None


@cache
def _warn_of_language(language: str) -> None:
    warnings.warn(
        f"the encoder was not trained on the language {language!r}, so results may be poor: name a "
        f"multilingual one as the model, such as {MULTILINGUAL_ENCODER}",
        stacklevel=2,
    )
