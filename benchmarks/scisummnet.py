"""Papers of ScisummNet: their abstracts."""

import gzip
import json
import re
from collections.abc import Iterator
from pathlib import Path

from foveate import Document


def papers_with_abstract(path: Path) -> Iterator[tuple[Document, str]]:
    """Yield each paper, its abstract as the first section, and its human summary."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            paper = json.loads(line)
            sections = [{"heading": "Abstract", "sentences": paper["abstract"]}]
            sections += [
                section
                for section in paper["sections"]
                if section["sentences"] and not repeats(section["sentences"], paper["abstract"])
            ]
            document = Document.from_sections(paper["title"], sections, language="en")
            yield document, " ".join(paper["summary"])


def repeats(section: list[str], abstract: list[str]) -> bool:
    """Whether a section contains most of the abstract, as in articles that repeat it."""
    of_abstract = trigrams(abstract)
    return len(of_abstract & trigrams(section)) > 0.8 * len(of_abstract) > 0


def trigrams(sentences: list[str]) -> set[tuple[str, ...]]:
    words = re.findall(r"\w+", " ".join(sentences).lower())
    return set(zip(words, words[1:], words[2:], strict=False))
