"""What is shown with a result: the sentences around it, and the title of its document."""

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import accumulate

from foveate.documents import Document, Span
from foveate.documents.blocks import UNSPLIT
from foveate.documents.sentences import join_sentences
from foveate.tasks.hits import Hit, NearbySentence


def surroundings(
    document: Document,
    results: Sequence[Span],
    num_sentences: int,
    marked: Sequence[Span] | None = None,
) -> list[list[NearbySentence]]:
    """Return the sentences of each result, with those around it in the same section.

    Args:
        document: The document.
        results: Spans of the document, each within a section.
        num_sentences: Number of sentences to add before and after each result.
        marked: The part of each result to mark; by default all of it.

    Raises:
        ValueError: The number is negative.

    Example:
        >>> from foveate import Document, search
        >>> from foveate.tasks.surroundings import surroundings
        >>> sea = Document.from_sections("Sea", [("Fish", "Cod swim. They eat. They sleep.")])
        >>> [hit] = search("What do fish eat?", sea, top_k=1)
        >>> [(near.span.text, near.is_marked) for near in surroundings(sea, [hit.best], 1)[0]]
        [('Cod swim.', False), ('They eat.', True), ('They sleep.', False)]
    """
    if num_sentences < 0:
        raise ValueError(f"num_sentences must be at least 0, got {num_sentences}")
    starts = [sentence.start for sentence in document.sentences()]
    section_ends = list(accumulate(section.num_own_sentences for _, section in document.walk()))
    places = []
    for result in results:
        inside = sentences_of(result, starts)
        section = bisect_right(section_ends, inside.start)
        section_start = section_ends[section - 1] if section else 0
        around = range(
            max(inside.start - num_sentences, section_start),
            min(inside.stop + num_sentences, max(section_ends[section], inside.stop)),
        )
        places.append((around, section))
    shown = sorted({i for around, _ in places for i in around})
    spans = dict(zip(shown, document.spans({*shown}), strict=True))
    separators = sentence_separators(document)
    return [
        [
            NearbySentence(spans[i], i in sentences_of(part, starts), separators[i], i, section)
            for i in around
        ]
        for (around, section), part in zip(places, marked or results, strict=True)
    ]


def completed(
    hits: Sequence[Hit],
    documents: Sequence[Document] | Mapping[int, Document],
    num_sentences: int = 0,
) -> list[Hit]:
    """Add to hits what is shown of them, with one pass over each document.

    Args:
        hits: The hits.
        documents: Their documents, by `Hit.document_idx`.
        num_sentences: Number of sentences to add before and after each of them.
    """
    found: dict[int, Hit] = {}
    for idx in {hit.document_idx for hit in hits}:
        of_document, own = documents[idx], [i for i, x in enumerate(hits) if x.document_idx == idx]
        quoted, best = [hits[i].quoted for i in own], [hits[i].best for i in own]
        nearby = surroundings(of_document, quoted, num_sentences, best)
        for i, near in zip(own, nearby, strict=True):
            found[i] = replace(
                hits[i],
                sentences=tuple(near),
                section_idx=near[0].section_idx
                if hits[i].unit == "passage"
                else hits[i].section_idx,
                title=of_document.title,
                authors=of_document.authors,
                date=of_document.date,
                language=of_document.language,
            )
    return [found[i] for i in range(len(hits))]


def title_of(document: Document) -> str:
    """Return a document's title to show or, if it has none, its source."""
    return document.title or document.source or "Untitled"


def sentence_separators(document: Document) -> list[str]:
    """Return what precedes each sentence, see `NearbySentence`."""
    space = join_sentences(("", ""), document.language)
    return [
        "\n" if position == 0 or paragraph.kind in UNSPLIT else space
        for paragraph in document.paragraphs()
        for position in range(len(paragraph.sentences))
    ]


def sentences_of(span: Span, starts: Sequence[int]) -> range:
    """Return the indices of the sentences that a span touches.

    Args:
        span: A span of a document.
        starts: Where each sentence of the document starts.
    """
    first = max(bisect_right(starts, span.start) - 1, 0)
    return range(first, max(bisect_left(starts, span.end), first + 1))
