"""Results from a library, with the text and the flat metadata that frameworks expect."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from foveate.documents import Document, Span
from foveate.documents.structure import format_path
from foveate.tasks.hits import Hit, join_nearby
from foveate.tasks.surroundings import surroundings

if TYPE_CHECKING:
    from foveate.index import Index


@dataclass(frozen=True, slots=True)
class Result:
    """Something that a library found.

    Attributes:
        text: Its whole text, without markup; paragraphs begin on new lines.
        hit: The place, the best sentence in it, and the score.
        metadata: The place as strings and numbers; see `span_metadata`.
    """

    text: str
    hit: Hit
    metadata: dict[str, Any]


def find(index: "Index", query: str, **options: Any) -> list[Result]:
    """Find passages, sections or documents in a library, with their texts.

    Args:
        index: The library.
        query: What to look for.
        options: Those of `Index.search`.
    """
    hits = index.search(query, **options)
    # Of sections and documents, hits have the best sentence alone.
    numbers = {hit.document_idx for hit in hits if hit.unit != "passage"}
    documents = {number: index.document(number) for number in numbers}
    return [
        Result(
            join_nearby(hit.sentences)
            if hit.unit == "passage"
            else texts_of(documents[hit.document_idx], [hit.span])[0],
            hit,
            span_metadata(hit.span, hit),
        )
        for hit in hits
    ]


def texts_of(document: Document, spans: Sequence[Span]) -> list[str]:
    """Return all words of spans, without markup, a line for each paragraph.

    The text of a span of a section or document is only its title.
    """
    return [join_nearby(sentences) for sentences in surroundings(document, spans, 0)]


def span_metadata(span: Span, of: Document | Hit) -> dict[str, Any]:
    """Describe a place by strings and numbers, which every vector store takes.

    Args:
        span: The place.
        of: Its document, or the hit.

    Returns:
        `source`, `title`, `authors`, `date`, `section_path`, `page`, `place`, `speaker`, `start`
        and `end`, without those that are unknown.
    """
    fields = {
        "source": span.document,
        "title": of.title,
        "authors": "; ".join(of.authors),
        "date": of.date,
        "section_path": format_path(span.path),
        "page": span.page,
        "place": span.place,
        "speaker": span.speaker,
        "start": span.start,
        "end": span.end,
    }
    return {name: value for name, value in fields.items() if value not in (None, "")}
