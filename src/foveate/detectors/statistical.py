"""Keywords by counting: TF-IDF against general usage, and YAKE."""

from collections import Counter

from foveate.detectors.frequencies import general_frequencies
from foveate.detectors.keyword import Keyword, is_content_word, locate, words
from foveate.detectors.segmentation import needs_segmentation
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


def yake(
    document: Document, top_k: int, *, language: str = "en", max_words: int = 3
) -> list[Keyword]:
    """Rank words and phrases by the statistics of YAKE (Campos et al., 2020).

    YAKE looks at casing, position, frequency, the number of different neighbours of a word, and
    the number of sentences with it. No other text is compared. Scores are those of the `yake`
    library with the sign changed, so that the highest is the best.

    Args:
        document: The document.
        top_k: Number of keywords.
        language: ISO 639 code. YAKE uses no stop words for languages that it does not know.
        max_words: Greatest number of words in a phrase.

    Raises:
        ImportError: The `yake` extra is not installed.
        ValueError: The language is Chinese or Japanese, whose words YAKE cannot tell apart.
    """
    if needs_segmentation(language):
        raise ValueError(
            f"YAKE needs spaces between words, which {language!r} does not have: "
            'use the method "tfidf" or "embedding"'
        )
    try:
        from yake import KeywordExtractor
    except ImportError as error:
        raise ImportError("this detector needs YAKE: run `pip install 'foveate[yake]'`") from error
    extractor = KeywordExtractor(lan=language, n=max_words, top=2 * top_k)
    # Headings and list items end without punctuation, and YAKE would join them with what follows.
    sentences = (sentence.text for sentence in document.sentences())
    text = "\n".join(f"{text}." if text[-1].isalnum() else text for text in sentences)
    phrases = [(phrase, -float(score)) for phrase, score in extractor.extract_keywords(text)]
    # YAKE still joins a few sentences; phrases across them do not occur in the document.
    return [keyword for keyword in locate(document, phrases) if keyword.spans][:top_k]
