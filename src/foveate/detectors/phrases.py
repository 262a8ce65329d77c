"""Key phrases, ranked by where they occur in the document and how unusual their words are."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias

from foveate.detectors.frequencies import general_frequencies
from foveate.detectors.keyword import Keyword, is_content_word, locate, words
from foveate.documents import Document

_VERY_COMMON = 5e-4
"""Words with at least this share of general usage (about 200 in English) are in no phrase."""

_COMMON = 2e-4
"""Words with at least this share of general usage (about 500 in English) are no phrase alone."""

_UNKNOWN = 1e-6
"""Share assumed of words that the frequency list does not have; those that it has have more."""

_EARLY = 20
"""Number of words after which a first occurrence counts as late."""

_MIN_OWN = 0.1
"""Occurrences granted to a phrase that is always part of the same longer phrase."""

_HYPHENS = frozenset("-\u2010\u2011")
_MAX_DIGITS_AND_LETTERS = 5  # of a word such as 3D or 802; longer ones are mostly codes

_Key: TypeAlias = tuple[str, ...]


class _Term(NamedTuple):
    """A word, or several joined by hyphens, which count as one.

    Attributes:
        key: Its words in lower case.
        start: Offset of its first character.
        end: Offset just past its last character.
    """

    key: _Key
    start: int
    end: int


class _Form(NamedTuple):
    """A way of writing a phrase, its words in lower case, and the number of its terms."""

    text: str
    key: _Key
    length: int


class _Role(NamedTuple):
    """Whether phrases can hold a term at all, and whether they can end with it."""

    inside: bool
    last: bool


@dataclass(slots=True)
class _Phrase:
    """The counts of a phrase, its singular and plural taken together.

    Attributes:
        first: Number of the document's words before its first occurrence; 0 if the title has it.
        count: Number of its occurrences in sentences.
        longer: Number of occurrences of the most frequent longer phrase that it is part of.
        titled: Whether the title or a heading contains it.
        in_heading: Whether a heading contains it.
        forms: How often each way of writing it occurs in sentences.
    """

    first: int
    count: int = 0
    longer: int = 0
    titled: bool = False
    in_heading: bool = False
    forms: Counter[_Form] = field(default_factory=Counter)

    @property
    def form(self) -> _Form:
        """The most frequent way of writing it; of equals, one with capitals."""
        return max(self.forms, key=lambda form: (self.forms[form], not form.text.islower()))


def phrases(
    document: Document, top_k: int, *, language: str = "en", max_words: int = 5
) -> list[Keyword]:
    """Rank words and phrases by where they occur in the document and how unusual their words are.

        score(p) = √own(p) ∛unusual(p) letters(p)^(5/4) h(p) exp(-0.6 (length(p) - 2)²)
                   / √(1 + first(p) / 20)

    - own: occurrences of p in sentences, less those of the most frequent longer phrase around it.
    - unusual: how many times as often as in general the document uses the words of p: the
      geometric mean of (n(w) / N) / f(w), as in `tfidf`.
    - letters, length: the numbers of letters and words of p. Long words are more specific; two
      words are the best length, and one or three are worth half as much.
    - first: the number of words before p first occurs. The title comes before the first word.
    - h: 2 if p is in a heading, else 1.

    Phrases are runs of words with only spaces or hyphens between them and without very common
    words. A hyphenated word counts as one. A phrase of several words must occur twice, or once in
    a sentence and again in the title or a heading; a common word is not a phrase by itself.
    Singular and plural are counted together, and the keyword has the form that is more frequent;
    its spans are the places of that form.

    The constants were fitted to half of the papers of `benchmarks/keyphrases.py` and rounded;
    changing any of them by a quarter hardly changes the result.

    Args:
        document: The document.
        top_k: Number of keywords.
        language: ISO 639 code of a language that wordfreq knows.
        max_words: Greatest number of words in a phrase.

    Raises:
        ValueError: wordfreq does not know the language, or `max_words` is below 1.

    Example:
        >>> from foveate import Document
        >>> from foveate.detectors import phrases
        >>> sea = Document.from_text("The deep sea is dark. Few fish live in the deep sea.")
        >>> [(keyword.text, len(keyword.spans)) for keyword in phrases(sea, 2)]
        [('deep sea', 2), ('fish', 1)]
    """
    if max_words < 1:
        raise ValueError(f"max_words must be at least 1, got {max_words}")
    frequencies = general_frequencies(language)
    found, counts = _collect(document, language, max_words, frequencies)
    found = {
        key: phrase
        for key, phrase in _merge_plurals(found).items()
        if _is_candidate(phrase, frequencies)
    }
    _count_longer(found)
    total = counts.total()
    unusual = {
        word: math.log(count / total / max(frequencies.get(word, 0), _UNKNOWN))
        for word, count in counts.items()
    }
    scored = [(_log_score(phrase, unusual), phrase) for phrase in found.values()]
    scored.sort(key=lambda item: (-item[0], item[1].first))
    ranked = [(phrase.form.text, math.exp(score)) for score, phrase in scored[:top_k]]
    return locate(document, ranked, language)


def _log_score(phrase: _Phrase, unusual: Mapping[str, float]) -> float:
    _, key, length = phrase.form
    return (
        math.log(max(phrase.count - phrase.longer, _MIN_OWN)) / 2
        + sum(unusual[word] for word in key) / len(key) / 3
        + math.log(sum(map(len, key))) * 5 / 4
        + math.log(2) * phrase.in_heading
        - 0.6 * (length - 2) ** 2
        - math.log(1 + phrase.first / _EARLY) / 2
    )


def _collect(
    document: Document, language: str, max_words: int, frequencies: Mapping[str, float]
) -> tuple[dict[_Key, _Phrase], Counter[str]]:
    """Find all phrases of the document, and count its words."""
    found: dict[_Key, _Phrase] = {}
    counts: Counter[str] = Counter()
    roles: dict[_Key, _Role] = {}
    before = 0  # words in the sentences so far
    for kind, text in _texts(document):
        terms = _terms(text, language)
        for term in terms:
            if term.key not in roles:
                roles[term.key] = _role(term.key, frequencies)
        for i, j in _stretches(text, terms, roles, max_words):
            key = tuple(word for term in terms[i:j] for word in term.key)
            phrase = found.get(key)
            if phrase is None:
                phrase = found[key] = _Phrase(first=0 if kind == "title" else before + i)
            if kind == "sentence":
                phrase.count += 1
                form = " ".join(text[terms[i].start : terms[j - 1].end].split())
                if i == 0 and form[1:].islower():  # a capital that says nothing about the word
                    form = form.lower()
                phrase.forms[_Form(form, key, j - i)] += 1
            else:
                phrase.titled = True
                phrase.in_heading |= kind == "heading"
        if kind == "sentence":
            counts.update(word for term in terms for word in term.key)
            before += sum(len(term.key) for term in terms)
    return found, counts


def _texts(document: Document) -> Iterator[tuple[Literal["title", "heading", "sentence"], str]]:
    yield "title", document.title
    for _, section in document.walk():
        yield "heading", section.title
        for paragraph in section.paragraphs:
            for sentence in paragraph.sentences:
                yield "sentence", sentence.text


def _terms(text: str, language: str) -> list[_Term]:
    terms: list[_Term] = []
    for word in words(text, language):
        if terms and text[terms[-1].end : word.start] in _HYPHENS:
            terms[-1] = _Term((*terms[-1].key, word.key), terms[-1].start, word.end)
        else:
            terms.append(_Term((word.key,), word.start, word.end))
    return terms


def _role(key: _Key, frequencies: Mapping[str, float]) -> _Role:
    last = is_content_word(key[-1]) and not key[-1].endswith("'s")
    if len(key) > 1:
        return _Role(any(_is_rare(word, frequencies) and word.isalpha() for word in key), last)
    [word] = key
    if word[0].isdigit():
        return _Role(len(word) <= _MAX_DIGITS_AND_LETTERS and not word.isdigit(), last=False)
    _, _, ending = word.partition("'")
    is_contraction = ending != "s" and 1 <= len(ending) <= 2
    return _Role(is_content_word(word) and _is_rare(word, frequencies) and not is_contraction, last)


def _is_rare(word: str, frequencies: Mapping[str, float]) -> bool:
    return len(word) > 1 and frequencies.get(word, 0) < _VERY_COMMON


def _stretches(
    text: str, terms: list[_Term], roles: Mapping[_Key, _Role], max_words: int
) -> Iterator[tuple[int, int]]:
    """Yield the bounds of the phrases among the terms of a text."""
    for i, first in enumerate(terms):
        if not roles[first.key].inside:
            continue
        for j in range(i, min(i + max_words, len(terms))):
            role = roles[terms[j].key]
            if not role.inside or (j > i and text[terms[j - 1].end : terms[j].start].strip()):
                break
            if role.last:
                yield i, j + 1


def _merge_plurals(found: Mapping[_Key, _Phrase]) -> dict[_Key, _Phrase]:
    """Add the counts of each plural to those of its singular, if the document has both."""
    merged: dict[_Key, _Phrase] = {}
    for key, phrase in found.items():
        one = merged.setdefault(_singular(key, found), _Phrase(phrase.first))
        one.first = min(one.first, phrase.first)
        one.count += phrase.count
        one.titled |= phrase.titled
        one.in_heading |= phrase.in_heading
        one.forms += phrase.forms
    return merged


def _singular(key: _Key, found: Mapping[_Key, _Phrase]) -> _Key:
    """Return the singular of a phrase if the document has it, else the phrase itself."""
    *others, word = key
    if not word.endswith("s") or word.endswith("ss"):
        return key
    for plural, singular in (("ies", "y"), ("s", ""), ("es", "")):
        base = (*others, word.removesuffix(plural) + singular)
        if word.endswith(plural) and base in found:
            return base
    return key


def _is_candidate(phrase: _Phrase, frequencies: Mapping[str, float]) -> bool:
    if not phrase.count:
        return False
    _, key, length = phrase.form
    if length == 1:
        return len(key) > 1 or frequencies.get(key[0], 0) < _COMMON
    return phrase.count + phrase.titled > 1


def _count_longer(found: Mapping[_Key, _Phrase]) -> None:
    for key, phrase in found.items():
        for length in range(1, len(key)):
            for i in range(len(key) - length + 1):
                part = found.get(_singular(key[i : i + length], found))
                if part is not None:
                    part.longer = max(part.longer, phrase.count)
