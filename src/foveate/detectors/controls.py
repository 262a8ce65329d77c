"""Keywords that nothing detects: random words, gibberish, and the user's own."""

import random
import string
import warnings
from collections.abc import Iterable

from foveate.documents import Document

from .keyword import Detector, Keyword, locate
from .words import words

_LETTERS_AT_MOST = 10


def random_words(document: Document, k: int, *, seed: int = 0) -> list[Keyword]:
    """Draw k different words of the document, each with the same chance (EGAD, 2).

    The same seed and document give the same words.
    """
    present = dict.fromkeys(
        word.key for sentence in document.sentences() for word in words(sentence.text)
    )
    drawn = _generator(document, seed).sample(list(present), min(k, len(present)))
    return locate(document, [(word, 0.0) for word in drawn])


def gibberish(document: Document, k: int, *, seed: int = 0) -> list[Keyword]:
    """Make up k words of random lower-case letters (EGAD, 3.3).

    Their lengths follow a binomial distribution, 10 letters each with a chance of one half; a
    word of no letters, one in a thousand, is drawn again. The same seed and document give the same
    words. They are not looked for in the document.
    """
    generator = _generator(document, seed)
    made: list[str] = []
    while len(made) < k:
        length = sum(generator.random() < 0.5 for _ in range(_LETTERS_AT_MOST))
        word = "".join(generator.choices(string.ascii_lowercase, k=length))
        made += [word] if word else []
    return [Keyword(word, 0.0) for word in made]


def given(keywords: str | Iterable[str]) -> Detector:
    """Make a detector that gives the user's own keywords, words or phrases, in their order.

    One text is one keyword. The detector warns where it is asked for fewer than there are.

    Raises:
        ValueError: no keywords, or an empty one.

    Example:
        >>> from foveate import Document
        >>> from foveate.detectors import given
        >>> sea = Document.from_text("The cod eats herring. Cod are fish.")
        >>> [keyword] = given(["cod"])(sea, 5)
        >>> keyword.places
        (Occurrence(sentence=0, start=4, end=7), Occurrence(sentence=1, start=0, end=3))
    """
    keywords = [keywords] if isinstance(keywords, str) else keywords
    own = [" ".join(keyword.split()) for keyword in keywords]
    if not own or not all(own):
        raise ValueError("a keyword is empty: give words or phrases, at least one")

    def detect(document: Document, k: int) -> list[Keyword]:
        if k < len(own):
            warnings.warn(
                f"only the first {k} of {len(own)} given keywords are used: ask for {len(own)}",
                stacklevel=2,
            )
        return locate(document, [(keyword, 0.0) for keyword in own[:k]])

    return detect


def _generator(document: Document, seed: int) -> random.Random:
    return random.Random(f"{seed}\n{document.text}")
