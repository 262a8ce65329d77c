"""A document as the tree of its anchors, depth first."""

from typing import Literal, NamedTuple

from foveate.documents import Document, Sentence


class Anchor(NamedTuple):
    """An inner node of a document's tree.

    Attributes:
        kind: what the anchor stands for.
        parent: index of the parent in the outline, -1 at the document.
        text: the words under a sentence's anchor; empty for sections and the document.
        sentence: the sentence of the document; None where the words are a title.
    """

    kind: Literal["document", "section", "sentence"]
    parent: int
    text: str = ""
    sentence: Sentence | None = None


def outline(document: Document, *, levels: int | None = None) -> list[Anchor]:
    """List the anchors of a document in reading order, parents before their children.

    A title is the first sentence of what it names, as the published HDT was trained (HDT, 4.2).

    Args:
        document: the document.
        levels: depth of the deepest token. Sections that nest deeper than it allows stand beside
            the section that holds them; 3 is the published form (document, sections, sentences,
            with the title in the first section). None keeps every level of nesting.

    Raises:
        ValueError: `levels` below 3.
    """
    if levels is not None and levels < 3:
        raise ValueError(
            f"levels must be at least 3 (sections, sentences, tokens) or None, got {levels}"
        )
    deepest_section = levels - 2 if levels is not None else None
    anchors = [Anchor("document", -1)]

    def add_sentence(parent: int, text: str, sentence: Sentence | None = None) -> None:
        if text:
            anchors.append(Anchor("sentence", parent, text, sentence))

    title = document.title
    if levels is None:
        add_sentence(0, title)
    enclosing = [0]  # the document, then the open sections from outermost to innermost
    for path, section in document.walk():
        depth = min(len(path), deepest_section or len(path))
        del enclosing[depth:]
        here = len(anchors)
        anchors.append(Anchor("section", enclosing[-1]))
        enclosing.append(here)
        if levels is not None and here == 1:
            add_sentence(here, title)
        add_sentence(here, section.title)
        for paragraph in section.paragraphs:
            for sentence in paragraph.sentences:
                add_sentence(here, sentence.text, sentence)
    return anchors
