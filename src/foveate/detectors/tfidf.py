"""Words that a document uses more often than its language does."""

from collections import Counter

from foveate.documents import Document

from .keyword import Keyword, locate
from .words import general_frequencies, words


def tfidf(document: Document, k: int, *, language: str = "en") -> list[Keyword]:
    """Rank words by how disproportionately often the document has them (EGAD, 2).

        score(w) = n(w) / N / f(w)

    n(w) of the document's N words are w; f(w) is its share in general usage, which takes the place
    of the number of documents that have it, so that no corpus is needed. The score says how many
    times as often as usual the document has the word. Words that common usage does not know (names,
    typing errors, very rare words) and what begins with a digit are dropped.

    Args:
        document: the document.
        k: number of keywords.
        language: ISO 639 code of a language that wordfreq knows.

    Raises:
        ValueError: `language` is not known.

    Example:
        >>> from foveate import Document
        >>> from foveate.detectors import tfidf
        >>> sea = Document.from_text("The cod is a fish. The cod of the sea eats herring.")
        >>> [(keyword.text, len(keyword.places)) for keyword in tfidf(sea, 2)]
        [('herring', 1), ('cod', 2)]
    """
    share = general_frequencies(language)
    counts = Counter(word.key for one in document.sentences() for word in words(one.text))
    total = counts.total()
    scores = {w: n / total / share[w] for w, n in counts.items() if w in share and w[0].isalpha()}
    ranked = sorted(scores.items(), key=lambda item: -item[1])[:k]  # equals as they first stand
    return locate(document, ranked)
