"""Texts that a model wrote from documents: which sentences support each of theirs."""

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from foveate.documents import Document, Span
from foveate.documents.language import detect_language
from foveate.documents.sentences import split_sentences
from foveate.inference import DocumentVectors, Encoder
from foveate.tasks.centrality import unit
from foveate.tasks.terms import terms

# Below it, what is cited supports a sentence weakly. Of the sentences that people wrote about eight
# meetings (QMSum, val) and 16 papers (ScisummNet, dev), 17 and 0 % have less with the sentence that
# they would best cite, and 98 and 66 % with a random one.
WEAK = 0.25
MAX_SOURCES = 3  # of a sentence that cites nothing itself
_WORTH = 0.05  # support that another source has to add

_CITATION = re.compile(r"[\[【]\s*\d+(?:\s*[-–,;]\s*\d+)*\s*[\]】]")
_RANGE = re.compile(r"(\d+)(?:\s*[-–]\s*(\d+))?")
_CITED = re.compile(rf"(?:\s*{_CITATION.pattern})+[\s.]*")
_WORD = re.compile(r"\w")
_NOT_FOUND = re.compile(r"\W*not in the documents?\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class WrittenSentence:
    """A sentence that a model wrote.

    Attributes:
        text: The sentence, with its citations and the space after it.
        numbers: The sentences that it cites, by their numbers.
        missing: Numbers that it cites although the model was shown no such sentence.
        support: How well what it cites supports it, between 0 and 1: the mean of the highest cosine
            of their vectors and of the share of its words that they have. Words count by how rare
            they are: log(1 + n/m) for those in m of the n sentences that the model was shown.
    """

    text: str
    numbers: tuple[int, ...]
    missing: tuple[int, ...]
    support: float

    @property
    def is_supported(self) -> bool:
        """Whether it cites sentences that are there, and these have something to do with it."""
        return not self.missing and self.support >= WEAK


@dataclass(frozen=True, slots=True)
class Written:
    """A text that a model wrote.

    Attributes:
        text: The text; it cites sentences by their numbers in brackets, as in `Prompt`.
        sentences: Its sentences, which together are the text. Empty if the model says that the
            answer is not in the documents.
        spans: The place of each sentence that is cited, by its number.
        title: Of the section that it summarizes; empty if it is about everything.
    """

    text: str
    sentences: tuple[WrittenSentence, ...]
    spans: dict[int, Span]
    title: str = ""

    @property
    def is_found(self) -> bool:
        """Whether the model found an answer."""
        return bool(self.sentences)


def check(text: str, spans: Mapping[int, Span], encoder: Encoder, title: str = "") -> Written:
    """Check the citations of a text.

    Args:
        text: What a model wrote.
        spans: The sentences that it was shown, by their numbers.
        encoder: Compares sentences.
        title: See `Written`.
    """
    text = text.strip()
    if not text or _NOT_FOUND.match(text):
        return Written(text or "Not in the document.", (), {}, title)
    pieces = _sentences(text)
    return _checked(pieces, [_cited(piece, spans) for piece in pieces], spans, encoder, title)


def trace(text: str, document: Document, vectors: DocumentVectors, encoder: Encoder) -> Written:
    """Find up to three sentences of a document that support each sentence of a text about it.

    Args:
        text: What a model wrote without citations.
        document: The document.
        vectors: Its vectors.
        encoder: The encoder that made them.
    """
    if not text.strip():
        return Written("", (), {})
    spans = dict(enumerate(document.spans(), 1))
    evidence = _Evidence(spans)
    pieces = _sentences(text.strip())
    cosines = unit(encoder.encode_texts(pieces)) @ unit(vectors.sentences).T
    sources: list[list[int]] = []
    for piece, row in zip(pieces, cosines, strict=True):
        weights, closeness = evidence.weigh(piece), dict(enumerate(row.tolist(), 1))
        chosen: list[int] = []
        support = 0.0
        while len(chosen) < MAX_SOURCES:
            scores = {n: evidence.support(weights, [*chosen, n], closeness) for n in spans}
            best = max(scores, key=scores.__getitem__)
            if chosen and scores[best] < support + _WORTH:
                break
            chosen.append(best)
            support = scores[best]
        sources.append(sorted(chosen))
    return _checked(pieces, sources, spans, encoder)


def _checked(
    pieces: Sequence[str],
    sources: Sequence[Sequence[int]],
    spans: Mapping[int, Span],
    encoder: Encoder,
    title: str = "",
) -> Written:
    """Compare each sentence of a text with those that it cites."""
    cited = sorted({number for numbers in sources for number in numbers if number in spans})
    plain = [_CITATION.sub("", piece).strip() or piece for piece in pieces]
    vectors = unit(encoder.encode_texts([*plain, *(spans[number].text for number in cited)]))
    cosines = vectors[: len(plain)] @ vectors[len(plain) :].T
    evidence = _Evidence(spans)
    sentences = []
    for piece, words, numbers, row in zip(pieces, plain, sources, cosines, strict=True):
        there = tuple(number for number in numbers if number in spans)
        closeness = dict(zip(cited, row.tolist(), strict=True))
        support = evidence.support(evidence.weigh(words), there, closeness) if there else 0.0
        missing = tuple(number for number in numbers if number not in spans)
        sentences.append(WrittenSentence(piece, there, missing, round(support, 4)))
    return Written(
        "".join(pieces), tuple(sentences), {number: spans[number] for number in cited}, title
    )


class _Evidence:
    """The words of numbered sentences, which may support others."""

    def __init__(self, spans: Mapping[int, Span]) -> None:
        self._words = {number: frozenset(terms(span.text)) for number, span in spans.items()}
        self._counts = Counter(word for words in self._words.values() for word in words)

    def weigh(self, text: str) -> dict[str, float]:
        """Return the weight of each word of a text, see `WrittenSentence.support`."""
        size = len(self._words)
        return {word: math.log(1 + size / max(self._counts[word], 1)) for word in terms(text)}

    def support(
        self, weights: Mapping[str, float], numbers: Sequence[int], closeness: Mapping[int, float]
    ) -> float:
        """Compute `WrittenSentence.support`.

        Args:
            weights: Of the words of the sentence.
            numbers: The sentences that it cites.
            closeness: Its cosines with them.
        """
        shared = frozenset().union(*(self._words[number] for number in numbers)) & weights.keys()
        share = sum(weights[word] for word in shared) / (sum(weights.values()) or 1)
        return (max(0.0, *(closeness[number] for number in numbers)) + share) / 2


def _sentences(text: str) -> list[str]:
    """Divide a text into sentences, with the citations after their full stops."""
    language = detect_language(text)
    starts: list[int] = []
    offset = 0
    for line in text.splitlines(keepends=True):
        for start, end in split_sentences(line, language):
            if start > 0 and (before := _CITED.match(line, start)):
                start = before.end()
            if _WORD.search(_CITATION.sub("", line[start:end])):
                starts.append(offset + start)
        offset += len(line)
    starts[:1] = [0]
    return [text[start:end] for start, end in zip(starts, [*starts[1:], len(text)], strict=True)]


def _cited(text: str, spans: Mapping[int, Span]) -> list[int]:
    """Return the numbers that a text cites; of a range, its ends and those in it that are there."""
    found: dict[int, None] = {}
    for citation in _CITATION.findall(text):
        for first, last in _RANGE.findall(citation):
            start, end = int(first), int(last or first)
            inside = (number for number in spans if start < number < end)
            found |= dict.fromkeys((start, *inside, end))
    return list(found)
