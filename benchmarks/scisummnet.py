"""Papers of ScisummNet: sections that repeat the abstract."""

import re


def repeats(section: list[str], abstract: list[str]) -> bool:
    """Whether a section contains most of the abstract, as in articles that repeat it."""
    of_abstract = trigrams(abstract)
    return len(of_abstract & trigrams(section)) > 0.8 * len(of_abstract) > 0


def trigrams(sentences: list[str]) -> set[tuple[str, ...]]:
    words = re.findall(r"\w+", " ".join(sentences).lower())
    return set(zip(words, words[1:], words[2:], strict=False))
