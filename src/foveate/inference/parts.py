"""Vectors of a document of which only some parts are read."""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from foveate.documents import Document
from foveate.inference.runner import DocumentVectors
from foveate.preprocessing.tree import Anchor


def outlines_of_parts(anchors: list[Anchor], parts: Sequence[range]) -> list[list[Anchor]]:
    """Make each part of a document a document of its own.

    Args:
        anchors: The outline of the document.
        parts: Runs of sentences of a section. What begins a section is read below its title.
    """
    place = [i for i, anchor in enumerate(anchors) if anchor.sentence_idx is not None]
    outlines = []
    for part in parts:
        first, last = place[part.start], place[part.stop - 1]
        while anchors[first - 1].kind == "sentence" and anchors[first - 1].sentence_idx is None:
            first -= 1  # the title
        sentences = [anchor._replace(parent=0) for anchor in anchors[first : last + 1]]
        outlines.append([Anchor("document", -1), *sentences])
    return outlines


def nothing_read(document: Document, dimension: int) -> DocumentVectors:
    """Return the vectors of a document of which no sentence is read."""
    number = sum(section.num_sentences for section in document.sections)
    num_sections = sum(1 for _ in document.walk())
    return DocumentVectors(
        torch.zeros(dimension),
        torch.zeros(1, dimension).expand(num_sections, -1),  # which takes no room
        torch.zeros(1, dimension).expand(number, -1),
        read=torch.zeros(number, dtype=torch.bool),
    )


def with_parts(
    anchors: list[Anchor],
    known: DocumentVectors,
    parts: Sequence[range],
    vectors: Sequence[DocumentVectors],
) -> DocumentVectors:
    """Add the vectors of parts of a document to what is known of it.

    Args:
        anchors: The outline of the document.
        known: The vectors of parts that were read before.
        parts: Runs of sentences that were not.
        vectors: Their vectors, as those of documents.
    """
    assert known.read is not None
    sections = (i for i, anchor in enumerate(anchors) if anchor.kind == "section")
    row_of = {i: row for row, i in enumerate(sections)}
    section_idx = torch.tensor(
        [row_of[anchor.parent] for anchor in anchors if anchor.sentence_idx is not None]
    )
    sentences, read = known.sentences.clone(), known.read.clone()
    for part, one in zip(parts, vectors, strict=True):
        sentences[part.start : part.stop], read[part.start : part.stop] = one.sentences, True
    sums = torch.zeros(known.sections.shape).index_add_(0, section_idx, sentences)
    counts = torch.zeros(len(sums)).index_add_(0, section_idx, read.float())
    found = DocumentVectors(
        sums.sum(0) / counts.sum(),
        sums / counts.clamp(min=1)[:, None],
        sentences,
        read=read,
    )
    if vectors[0].tokens is None:
        return found
    tokens = [vectors[0].tokens[:0]] * len(read)
    if known.tokens is not None:
        tokens = _by_sentence(known)
    for part, one in zip(parts, vectors, strict=True):
        tokens[part.start : part.stop] = _by_sentence(one)
    num_tokens = torch.tensor([*map(len, tokens)])
    return replace(found, tokens=torch.cat(tokens), num_tokens=num_tokens)


def _by_sentence(vectors: DocumentVectors) -> list[Tensor]:
    """Return the signs of the tokens of each sentence."""
    assert vectors.tokens is not None
    assert vectors.num_tokens is not None
    return list(vectors.tokens.split(vectors.num_tokens.tolist()))
