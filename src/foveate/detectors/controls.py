"""Keywords that are not detected: random words, gibberish, and keywords that are given."""

import random
import string
import warnings
from collections.abc import Iterable

from foveate.detectors.keyword import Detector, Keyword, locate, words
from foveate.documents import Document

_MAX_LETTERS = 10
_MAX_GIBBERISH = 10_000  # words


def random_words(document: Document, top_k: int, *, seed: int = 0) -> list[Keyword]:
    """Draw different words of the document, all equally likely (EGAD, section 2).

    Args:
        document: The document.
        top_k: Number of words; all of them if the document has fewer.
        seed: The same seed and document give the same words.
    """
    vocabulary = dict.fromkeys(
        word.key
        for sentence in document.sentences()
        for word in words(sentence.text, document.language)
    )
    drawn = _generator(document, seed).sample(list(vocabulary), min(top_k, len(vocabulary)))
    return locate(document, [(word, 0.0) for word in drawn])


def gibberish(document: Document, top_k: int, *, seed: int = 0) -> list[Keyword]:
    """Make up words of random lower-case letters (EGAD, section 3.3).

    Their lengths follow a binomial distribution, 10 letters with a probability of one half each; a
    word without letters, one in a thousand, is drawn again. The words have no spans: they are not
    looked up in the document.

    Args:
        document: The document.
        top_k: Number of words, at most 10,000.
        seed: The same seed and document give the same words.

    Raises:
        ValueError: More words are asked for.
    """
    if top_k > _MAX_GIBBERISH:
        raise ValueError(
            f"at most {_MAX_GIBBERISH:,} words are made up, and {top_k:,} are asked for"
        )
    generator = _generator(document, seed)
    drawn: list[str] = []
    while len(drawn) < top_k:
        length = sum(generator.random() < 0.5 for _ in range(_MAX_LETTERS))
        word = "".join(generator.choices(string.ascii_lowercase, k=length))
        drawn += [word] if word else []
    return [Keyword(word, 0.0) for word in drawn]


def given_keywords(keywords: str | Iterable[str]) -> Detector:
    """Make a detector that always returns the given keywords, in their order.

    The detector warns if it is asked for fewer keywords than it was given.

    Args:
        keywords: Words or phrases; a single string is one keyword.

    Raises:
        ValueError: There are no keywords, or one is empty.

    Example:
        >>> from foveate import Document
        >>> from foveate.detectors import given_keywords
        >>> sea = Document.from_text("The cod eats herring. Cod are fish.")
        >>> [keyword] = given_keywords(["cod"])(sea, 5)
        >>> [(span.start, span.end, span.text) for span in keyword.spans]
        [(4, 7, 'cod'), (22, 25, 'Cod')]
    """
    keywords = [keywords] if isinstance(keywords, str) else keywords
    phrases = [" ".join(keyword.split()) for keyword in keywords]
    if not phrases or not all(phrases):
        raise ValueError("a keyword is empty: give at least one word or phrase, and no blank ones")

    def detect(document: Document, top_k: int) -> list[Keyword]:
        if top_k < len(phrases):
            warnings.warn(
                f"only the first {top_k} of {len(phrases)} given keywords are used: "
                f"ask for {len(phrases)}",
                stacklevel=2,
            )
        return locate(document, [(phrase, 0.0) for phrase in phrases[:top_k]])

    return detect


def _generator(document: Document, seed: int) -> random.Random:
    return random.Random(f"{seed}\n{document.text}")
