"""What every detector gives: words or phrases, with a score and the places where they stand."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from foveate.documents import Document

from .words import Word, words


class Occurrence(NamedTuple):
    """Where a keyword stands.

    Attributes:
        sentence: index in the order of `Document.sentences`.
        start: offset in `Sentence.text` of the first character.
        end: offset just behind the last.
    """

    sentence: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Keyword:
    """A word or a phrase that stands for a document.

    Attributes:
        text: the keyword.
        score: how much the detector thinks of it, the higher the better; comparable only within
            one document and detector, and 0 for detectors that do not weigh.
        places: where the document has it, whatever its case; none if it does not.
    """

    text: str
    score: float
    places: tuple[Occurrence, ...] = ()


Detector = Callable[[Document, int], list[Keyword]]
"""Give the best k keywords of a document, the best first; fewer if there are not that many."""


def locate(document: Document, ranked: Iterable[tuple[str, float]]) -> list[Keyword]:
    """Make keywords of phrases and their scores by finding them in the document as whole words."""
    ranked = list(ranked)
    wanted = {phrase: tuple(word.key for word in words(phrase)) for phrase, _ in ranked}
    by_first: dict[str, set[tuple[str, ...]]] = {}
    for key in wanted.values():
        if key:
            by_first.setdefault(key[0], set()).add(key)
    found: dict[tuple[str, ...], list[Occurrence]] = {}
    for index, sentence in enumerate(document.sentences()):
        for key, place in _matches(words(sentence.text), by_first):
            found.setdefault(key, []).append(Occurrence(index, *place))
    return [
        Keyword(phrase, score, tuple(found.get(wanted[phrase], ()))) for phrase, score in ranked
    ]


def _matches(
    own: list[Word], by_first: dict[str, set[tuple[str, ...]]]
) -> Iterator[tuple[tuple[str, ...], tuple[int, int]]]:
    for i, word in enumerate(own):
        for key in by_first.get(word.key, ()):
            if tuple(other.key for other in own[i : i + len(key)]) == key:
                yield key, (word.start, own[i + len(key) - 1].end)
