"""Finding the abstract inside a document."""

import re
from collections.abc import Iterable, Iterator
from itertools import pairwise

from foveate.documents import Document, Section

_WORD = re.compile(r"\w+")
_MIN_SHARE = 0.8  # formulas, citations and hyphens are often written differently


def abstract_sections(document: Document, reference: str) -> frozenset[int]:
    """Find the sections that hold the abstract, and so give away what a summary should say.

    A section holds the abstract, or a part of it, if at least 80 % of the pairs of neighbouring
    words in its own sentences are in the reference as well. Code is not compared.

    Args:
        document: A document.
        reference: Its abstract, or a summary that was made from the abstract.

    Returns:
        The indices of the sections in the order of `Document.walk`.

    Example:
        >>> from foveate.documents import Document
        >>> sections = [("Abstract", "All cod swim far."), ("Cod", "They eat herring.")]
        >>> abstract_sections(Document.from_sections("Fish", sections), "All cod swim far, always.")
        frozenset({0})
    """
    pairs_of_reference = set(_word_pairs([reference]))
    found = set()
    for index, (_, section) in enumerate(document.walk()):
        pairs = list(_word_pairs(_sentences(section)))
        num_shared = sum(pair in pairs_of_reference for pair in pairs)
        if pairs and num_shared >= _MIN_SHARE * len(pairs):
            found.add(index)
    return frozenset(found)


def _sentences(section: Section) -> Iterator[str]:
    for paragraph in section.paragraphs:
        if paragraph.kind != "code":
            yield from (sentence.text for sentence in paragraph.sentences)


def _word_pairs(texts: Iterable[str]) -> Iterator[tuple[str, str]]:
    return pairwise(_WORD.findall(" ".join(texts).lower()))
