"""Keywords, the interface of detectors, and the places where keywords occur."""

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

from foveate.detectors.segmentation import needs_segmentation, segment
from foveate.documents import Document, Span

_HIRAGANA = re.compile(r"[\u3041-\u309f]+")
_ELISIONS = {  # words shortened by an apostrophe before another, by language
    "fr": re.compile(r"(?:[cdjlmnst]|(?:jus|lors|puis|quoi)?qu)['’]", re.IGNORECASE),
    "it": re.compile(r"(?:[cdls]|un|quest|quell|(?:d|n)?ell|(?:a|da|su)ll)['’]", re.IGNORECASE),
}
_FUNCTION_WORDS = frozenset(  # of contracts, and abbreviations, which are rare elsewhere
    [
        *("approx", "etc", "excl", "hereby", "herein", "hereof", "hereto", "hereunder", "incl"),
        *("pursuant", "shall", "thereby", "therefor", "therein", "thereof", "thereto", "whereas"),
    ]
)
_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")


@dataclass(frozen=True, slots=True)
class Keyword:
    """A word or phrase that characterizes a document.

    Attributes:
        text: The keyword.
        score: How highly the detector ranks it: the higher, the better. Scores are comparable only
            within one document and detector, and are 0 for detectors that do not score.
        spans: Every occurrence of the keyword in the document, ignoring case; empty if there is
            none. A span covers exactly the characters of the keyword. Where the markup inside a
            sentence makes them ambiguous (a link whose address repeats the word), `start` and `end`
            are those of the sentence.
    """

    text: str
    score: float
    spans: tuple[Span, ...] = ()


class Detector(Protocol):
    """A function that finds the keywords of a document."""

    def __call__(self, document: Document, top_k: int) -> list[Keyword]:
        """Return the best `top_k` keywords, best first; fewer if there are not enough."""
        ...


class Word(NamedTuple):
    """A word of a text.

    Attributes:
        key: The word in lower case, by which words are compared.
        start: Offset of its first character.
        end: Offset just past its last character.
    """

    key: str
    start: int
    end: int


def words(text: str, language: str | None = None) -> list[Word]:
    """Find the runs of letters and digits, including the apostrophes inside them.

    Args:
        text: The text.
        language: Its language; "zh" and "ja" are split by `foveate.detectors.segmentation.segment`,
            and in "fr" and "it", elided words such as "l'" are left out.

    Example:
        >>> [word.key for word in words("Don't re-enter Room_12!")]
        ["don't", 're', 'enter', 'room', '12']
    """
    found = [(match.start(), match.end()) for match in _WORD.finditer(text)]
    if language is not None and needs_segmentation(language):
        found = _segmented(text, language, found)
    if elision := _ELISIONS.get(language or ""):
        elided = ((elision.match(text, start, end), start, end) for start, end in found)
        found = [(match.end() if match else start, end) for match, start, end in elided]
    return [Word(text[start:end].lower().replace("’", "'"), start, end) for start, end in found]


def _segmented(text: str, language: str, runs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Split runs of letters, whatever their script, into words."""
    found: list[tuple[int, int]] = []
    for first, last in runs:
        end = first
        for start, stop in segment(text[first:last], language):
            if end < first + start:  # Latin letters or digits in between
                found.append((end, first + start))
            end = first + stop
            found.append((first + start, end))
        if end < last:
            found.append((end, last))
    return found


def is_content_word(key: str) -> bool:
    """Return whether a word can be a keyword.

    Digits, words such as "shall" and, in Chinese and Japanese, single characters and words of
    hiragana alone cannot.
    """
    if not key[0].isalpha() or _HIRAGANA.fullmatch(key) or key in _FUNCTION_WORDS:
        return False
    return len(key) > 1 or key < "\u3000"


def locate(
    document: Document, ranked: Iterable[tuple[str, float]], language: str | None = None
) -> list[Keyword]:
    """Turn scored phrases into keywords by finding them in the document as whole words.

    Args:
        document: The document.
        ranked: Phrases with their scores, in the order in which the keywords are returned.
        language: The language whose rules separate words; by default the document's.
    """
    ranked = list(ranked)
    language = language or document.language
    keys = {phrase: tuple(word.key for word in words(phrase, language)) for phrase, _ in ranked}
    by_first_word: dict[str, set[tuple[str, ...]]] = defaultdict(set)
    for key in filter(None, keys.values()):
        by_first_word[key[0]].add(key)
    spans: dict[tuple[str, ...], list[Span]] = defaultdict(list)
    for sentence in document.spans():
        matches = _find_phrases(sentence.text, language, by_first_word)
        source = document.text[sentence.start : sentence.end]
        if source == sentence.text or not matches:
            in_source = matches
        else:
            in_source = _find_phrases(source, language, by_first_word)
        for key, places in matches.items():
            exact = in_source.get(key, ())
            if len(exact) == len(places):
                offsets = [(sentence.start + i, sentence.start + j) for i, j in exact]
            else:
                offsets = [(sentence.start, sentence.end)] * len(places)
            for (i, j), (start, end) in zip(places, offsets, strict=True):
                text = sentence.text[i:j]
                spans[key].append(replace(sentence, start=start, end=end, text=text))
    return [Keyword(phrase, score, tuple(spans[keys[phrase]])) for phrase, score in ranked]


def _find_phrases(
    text: str, language: str | None, by_first_word: dict[str, set[tuple[str, ...]]]
) -> dict[tuple[str, ...], list[tuple[int, int]]]:
    """Return the start and end of every occurrence of the phrases, grouped by phrase."""
    text_words = words(text, language)
    places: dict[tuple[str, ...], list[tuple[int, int]]] = defaultdict(list)
    for i, word in enumerate(text_words):
        for key in by_first_word.get(word.key, ()):
            last = i + len(key) - 1
            if tuple(other.key for other in text_words[i : last + 1]) == key:
                places[key].append((word.start, text_words[last].end))
    return places
