"""The sentences around a result."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from foveate.documents import Document, Span
from foveate.documents.blocks import UNSPLIT


@dataclass(frozen=True, slots=True)
class ContextSentence:
    """A sentence in or near a result.

    Attributes:
        span: The sentence and its place.
        is_result: Whether it belongs to the result.
        opens_line: Whether it begins a paragraph or stands on a line of its own.
    """

    span: Span
    is_result: bool
    opens_line: bool


def contexts(
    document: Document, results: Sequence[Span], num_sentences: int
) -> list[list[ContextSentence]]:
    """Return the sentences of each result, with those around it in the same section.

    Args:
        document: The document.
        results: Spans of the document, each within a section.
        num_sentences: Number of sentences to add before and after each result.

    Raises:
        ValueError: The number is negative.

    Example:
        >>> from foveate import Document, search
        >>> from foveate.tasks.context import contexts
        >>> sea = Document.from_sections("Sea", [("Fish", "Cod swim. They eat. They sleep.")])
        >>> [hit] = search("What do fish live on?", sea, top_k=1)
        >>> [(near.span.text, near.is_result) for near in contexts(sea, [hit.span], 1)[0]]
        [('Cod swim.', False), ('They eat.', True), ('They sleep.', False)]
    """
    if num_sentences < 0:
        raise ValueError(f"the number of sentences around a result is at least 0: {num_sentences}")
    spans = document.spans()
    starts = [span.start for span in spans]
    opens_line = [
        position == 0 or paragraph.kind in UNSPLIT
        for paragraph in document.paragraphs()
        for position in range(len(paragraph.sentences))
    ]
    section_ends = list(accumulate(section.num_own_sentences for _, section in document.walk()))
    found = []
    for result in results:
        first = max(bisect_right(starts, result.start) - 1, 0)
        last = max(bisect_left(starts, result.end), first + 1)
        section = bisect_right(section_ends, first)
        section_start = section_ends[section - 1] if section else 0
        around = range(
            max(first - num_sentences, section_start),
            min(last + num_sentences, max(section_ends[section], last)),
        )
        found.append([ContextSentence(spans[i], first <= i < last, opens_line[i]) for i in around])
    return found
