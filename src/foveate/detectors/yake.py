"""Words and phrases by how a document uses them, with no other text to compare: YAKE."""

from foveate.documents import Document

from .keyword import Keyword, locate


def yake(document: Document, k: int, *, language: str = "en", longest: int = 3) -> list[Keyword]:
    """Rank words and phrases by the statistics of YAKE (Campos et al., 2020).

    Casing, place, frequency, and how many different words stand beside a word and in how many
    sentences. Scores are the library's with the sign turned, so that the highest is the best.

    Args:
        document: the document.
        k: number of keywords.
        language: ISO 639 code; for languages that YAKE has no stop words of, it uses none.
        longest: words in a phrase at most.

    Raises:
        ImportError: the `yake` extra is not installed.
    """
    try:
        from yake import KeywordExtractor
    except ImportError as error:
        raise ImportError("this detector needs YAKE: run `pip install 'foveate[yake]'`") from error
    extractor = KeywordExtractor(lan=language, n=longest, top=2 * k)
    # A heading or an item of a list ends without a mark, and YAKE would read on.
    sentences = (sentence.text for sentence in document.sentences())
    text = "\n".join(f"{one}." if one[-1].isalnum() else one for one in sentences)
    found = extractor.extract_keywords(text)
    located = locate(document, [(phrase, -float(score)) for phrase, score in found])
    return [keyword for keyword in located if keyword.places][:k]  # it joins some sentences still
