"""Where sentences begin and end."""

import re
from bisect import bisect_right
from collections.abc import Iterator

_QUOTATION = re.compile(r'“[^“”]*”|"[^"]*"')
_SPACE = re.compile(r"\s")
_WINDOW = 10_000  # characters looked at together: the time for quotations grows as its square
_UNDECIDED = 200  # characters before the end of a window in which sentences may begin otherwise
_WORD = re.compile(r"\w")


def split(text: str, language: str = "en") -> list[tuple[int, int]]:
    """Find the sentences of a paragraph.

    Args:
        text: One paragraph; its line breaks mean nothing.
        language: ISO 639 code; an unknown one falls back to general rules.

    Returns:
        The span of each sentence: in order, apart, starting and ending with a visible character.
        Together they cover everything but white space.
    """
    flat = _SPACE.sub(" ", text)
    spans: list[tuple[int, int]] = []
    cuts = [*_cuts(flat, language), len(flat)]
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


def _cuts(text: str, language: str) -> list[int]:
    """Offsets at which a new sentence starts.

    A quotation is one sentence to ``sentencex`` however many it quotes, so that pages of dialogue
    would be one: quotations are cut too.
    """
    cuts = set(_starts(text, language))
    for quotation in _QUOTATION.finditer(text):
        inside = quotation.start() + 1
        cuts.update(inside + cut for cut in _starts(text[inside : quotation.end() - 1], language))
    return sorted(cuts)


def _starts(text: str, language: str) -> Iterator[int]:
    # Imported here so that models, which import documents, run where torch alone is installed.
    from sentencex import get_sentence_boundaries

    quoted = [i for quotation in _QUOTATION.finditer(text) for i in quotation.span()]
    offset = 0
    while offset < len(text):
        boundaries = get_sentence_boundaries(language, text[offset : offset + _WINDOW])
        starts = [offset + found["start_index"] for found in boundaries if found["start_index"]]
        if offset + _WINDOW >= len(text):
            yield from starts
            return
        # What follows a window decides about its last words. The next one begins with a sentence
        # outside of quotations, or their marks would be paired otherwise.
        starts = [start for start in starts if start < offset + _WINDOW - _UNDECIDED]
        outside = [start for start in starts if bisect_right(quoted, start) % 2 == 0]
        offset = outside[-1] if outside else offset + _WINDOW - 2 * _UNDECIDED
        yield from (start for start in starts if start <= offset)
