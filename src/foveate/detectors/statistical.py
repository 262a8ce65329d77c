"""Keywords by counting: TF-IDF against general usage."""

from collections import Counter

from foveate.detectors.frequencies import general_frequencies
from foveate.detectors.keyword import Keyword, is_content_word, locate, words
from foveate.documents import Document


def tfidf(document: Document, top_k: int, *, language: str = "en") -> list[Keyword]:
    """Rank words by how disproportionately often the document uses them (EGAD, section 2).

        score(w) = n(w) / N / f(w)

    n(w) of the document's N words are w. f(w) is the word's share in general usage; it replaces
    the number of documents with the word, so that no corpus is needed. The score says how many
    times as often as usual the document uses the word. Words that are unknown to the frequency
    list (names, typos, very rare words) and words that begin with a digit are dropped, and so are,
    in Chinese and Japanese, single characters and words of hiragana alone.

    Args:
        document: The document.
        top_k: Number of keywords.
        language: ISO 639 code of a language that wordfreq knows.

    Raises:
        ValueError: wordfreq does not know the language.

    Example:
        >>> from foveate import Document
        >>> from foveate.detectors import tfidf
        >>> sea = Document.from_text("The cod is a fish. The cod of the sea eats herring.")
        >>> [(keyword.text, len(keyword.spans)) for keyword in tfidf(sea, 2)]
        [('herring', 1), ('cod', 2)]
    """
    frequencies = general_frequencies(language)
    counts = Counter(
        word.key for sentence in document.sentences() for word in words(sentence.text, language)
    )
    total = counts.total()
    scores = {
        word: count / total / frequencies[word]
        for word, count in counts.items()
        if word in frequencies and is_content_word(word)
    }
    # The sort is stable: words with equal scores stay in the order in which they first occur.
    ranked = sorted(scores.items(), key=lambda item: -item[1])[:top_k]
    return locate(document, ranked, language)
