"""Splitting of paragraphs into sentences."""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator

_QUOTATION = re.compile(r'“[^“”]*”|"[^"]*"')
_SPACE = re.compile(r"\s")
_WINDOW = 10_000  # characters split at once: the time for quotations grows with the square
_UNDECIDED = 200  # characters at the end of a window whose sentences depend on what follows
_WORD = re.compile(r"\w")

UNSPACED_LANGUAGES = ("ja", "km", "lo", "my", "th", "zh")  # write no spaces between words
_UNSPACED_SENTENCES = ("ja", "zh")


def split_sentences(text: str, language: str = "en") -> list[tuple[int, int]]:
    """Find the sentences of a paragraph.

    Args:
        text: One paragraph. A line break counts as a space.
        language: ISO 639 code. Unknown languages fall back to general rules.

    Returns:
        Start and end of each sentence, sorted and non-overlapping. They start and end with a
        visible character and together cover everything but whitespace.
    """
    flat = _SPACE.sub(" ", text)
    spans: list[tuple[int, int]] = []
    cuts = [*_boundaries(flat, language), len(flat)]
    start = 0
    for cut in cuts:
        piece = flat[start:cut]
        visible = piece.strip()
        if visible:
            first = start + len(piece) - len(piece.lstrip())
            end = first + len(visible)
            if spans and not _WORD.search(visible):  # a stray ellipsis or quotation mark
                spans[-1] = (spans[-1][0], end)
            else:
                spans.append((first, end))
        start = cut
    return spans


def _boundaries(text: str, language: str) -> list[int]:
    """Return the offsets at which a new sentence starts.

    `sentencex` takes a quotation as one sentence, even pages of dialogue. Therefore quotations are
    split on their own too.
    """
    cuts = set(_sentence_starts(text, language))
    for quotation in _QUOTATION.finditer(text):
        inside = quotation.start() + 1
        cuts.update(
            inside + cut for cut in _sentence_starts(text[inside : quotation.end() - 1], language)
        )
    return sorted(cuts)


def _sentence_starts(text: str, language: str) -> Iterator[int]:
    # Imported late: models import documents, and must run with torch alone installed.
    from sentencex import get_sentence_boundaries

    quoted = [i for quotation in _QUOTATION.finditer(text) for i in quotation.span()]
    offset = 0
    while offset < len(text):
        boundaries = get_sentence_boundaries(language, text[offset : offset + _WINDOW])
        starts = [
            offset + boundary["start_index"] for boundary in boundaries if boundary["start_index"]
        ]
        if offset + _WINDOW >= len(text):
            yield from starts
            return
        # What follows a window decides about its last words. The next window starts at a sentence
        # outside quotations, because within one the quotation marks would be paired wrongly.
        starts = [start for start in starts if start < offset + _WINDOW - _UNDECIDED]
        outside = [start for start in starts if bisect_right(quoted, start) % 2 == 0]
        offset = outside[-1] if outside else offset + _WINDOW - 2 * _UNDECIDED
        yield from (start for start in starts if start <= offset)


def join_sentences(sentences: Iterable[str], language: str | None) -> str:
    """Join sentences as their language does: Chinese and Japanese put no space between them."""
    return ("" if language in _UNSPACED_SENTENCES else " ").join(sentences)
