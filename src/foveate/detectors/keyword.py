"""Keywords, the interface of detectors, and the places where keywords occur."""

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

from foveate.documents import Document, Span

_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")


@dataclass(frozen=True, slots=True)
class Keyword:
    """A word or phrase that characterizes a document.

    Attributes:
        text: The keyword.
        score: How highly the detector ranks it: the higher, the better. Scores are comparable only
            within one document and detector, and are 0 for detectors that do not score.
        spans: Every place where the document has the keyword, in any case; empty if it has none.
            A span covers exactly the characters of the keyword. Where the markup inside a sentence
            makes them ambiguous (a link whose address repeats the word), `start` and `end` are
            those of the sentence.
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


def words(text: str) -> list[Word]:
    """Find the runs of letters and digits, including the apostrophes inside them.

    Example:
        >>> [word.key for word in words("Don't re-enter Room_12!")]
        ["don't", 're', 'enter', 'room', '12']
    """
    return [
        Word(match[0].lower().replace("’", "'"), match.start(), match.end())
        for match in _WORD.finditer(text)
    ]


def locate(document: Document, ranked: Iterable[tuple[str, float]]) -> list[Keyword]:
    """Make keywords of scored phrases by finding them in the document as whole words.

    Args:
        document: The document.
        ranked: Phrases with their scores, in the order in which the keywords are returned.
    """
    ranked = list(ranked)
    keys = {phrase: tuple(word.key for word in words(phrase)) for phrase, _ in ranked}
    by_first_word: dict[str, set[tuple[str, ...]]] = defaultdict(set)
    for key in filter(None, keys.values()):
        by_first_word[key[0]].add(key)
    spans: dict[tuple[str, ...], list[Span]] = defaultdict(list)
    for sentence in document.spans():
        matches = _find_phrases(sentence.text, by_first_word)
        source = document.text[sentence.start : sentence.end]
        if source == sentence.text or not matches:
            in_source = matches
        else:
            in_source = _find_phrases(source, by_first_word)
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
    text: str, by_first_word: dict[str, set[tuple[str, ...]]]
) -> dict[tuple[str, ...], list[tuple[int, int]]]:
    """Return the start and end of every occurrence of the phrases, grouped by phrase."""
    text_words = words(text)
    places: dict[tuple[str, ...], list[tuple[int, int]]] = defaultdict(list)
    for i, word in enumerate(text_words):
        for key in by_first_word.get(word.key, ()):
            last = i + len(key) - 1
            if tuple(other.key for other in text_words[i : last + 1]) == key:
                places[key].append((word.start, text_words[last].end))
    return places
