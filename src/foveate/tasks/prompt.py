"""How documents look in a prompt: headings, numbered sentences, and counts of what is left out."""

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from foveate.documents import Document
from foveate.tasks.cut import Floats
from foveate.tasks.surroundings import sentence_separators, title_of

_DEEPEST_HEADING = 6  # in Markdown


class Part(NamedTuple):
    """A document or a section.

    Attributes:
        depth: 0 of a document; of a section, the length of its path.
        heading: What is shown of its title, after a blank line; empty if it has none.
        sentences: The sentences directly in it, counted over all documents.
        repeats: Whether titles tell nothing there: in its document, most of those at its depth, or
            at a smaller one, are of others too, such as names of speakers.
    """

    depth: int
    heading: str
    sentences: range
    repeats: bool


class Line(NamedTuple):
    """A sentence as it is shown.

    Attributes:
        number: Its number in brackets.
        text: Its words.
        speaker: Who says it, if known, with a colon.
        separator: What precedes it if the previous one is shown too: a line break at the beginning
            of a paragraph.
    """

    number: str
    text: str
    speaker: str
    separator: str

    def show(self, separator: str) -> str:
        """Return what is added to a prompt.

        The speaker is named at the beginning of a line. A listing begins below its number, so that
        all of its lines keep their indentation.
        """
        speaker = self.speaker if separator == "\n" else ""
        space = "\n" if "\n" in self.text else " "
        return f"{separator}{self.number}{space}{speaker}{self.text}"


def outline(documents: Sequence[Document]) -> list[Part]:
    """Return the documents and their sections, in preorder."""
    parts = []
    start = 0
    for document in documents:
        parts.append(Part(0, f"\n\n# {title_of(document)}", range(start, start), repeats=False))
        titles: dict[int, list[str]] = {}
        for path, section in document.walk():
            if section.title:
                titles.setdefault(len(path), []).append(section.title)
        repeating = [depth for depth, its in titles.items() if 2 * len({*its}) < len(its)]
        for path, section in document.walk():
            marks = "#" * min(len(path) + 1, _DEEPEST_HEADING)
            heading = f"\n\n{marks} {section.title}" if section.title else ""
            end = start + section.num_own_sentences
            repeats = any(depth <= len(path) for depth in repeating)
            parts.append(Part(len(path), heading, range(start, end), repeats))
            start = end
    return parts


def lines(documents: Sequence[Document]) -> list[Line]:
    """Return all sentences of the documents, numbered from 1."""
    found: list[Line] = []
    for document in documents:
        separators = iter(sentence_separators(document))
        for paragraph in document.paragraphs():
            speaker = f"{paragraph.speaker}: " if paragraph.speaker else ""
            for sentence in paragraph.sentences:
                number = f"[{len(found) + 1}]"
                separator = next(separators) or " "  # numbers stand apart in any language
                found.append(Line(number, sentence.text, speaker, separator))
    return found


def passages(
    sentences: Sequence[int], sizes: Sequence[int], most: float
) -> Iterator[Sequence[int]]:
    """Divide sentences into passages of at most so many tokens, if they have several.

    Args:
        sentences: Some sentences of a section.
        sizes: The tokens of each sentence of the documents.
        most: So many tokens.
    """
    start = total = 0
    for end, i in enumerate(sentences):
        total += sizes[i]
        if end > start and total > most:
            yield sentences[start:end]
            start, total = end, sizes[i]
    if sentences:
        yield sentences[start:]


def stretches(parts: Sequence[Part], sizes: Floats, most: float) -> Iterator[range]:
    """Divide parts into runs of the same depth and of at most so many tokens, if they have several.

    Args:
        parts: The documents and sections.
        sizes: The tokens of each; infinity for those that stay alone.
        most: So many tokens.
    """
    start = 0
    total = 0.0
    for i, size in enumerate(sizes.tolist()):
        total += size
        if i > start and (total > most or parts[i].depth != parts[start].depth):
            yield range(start, i)
            start, total = i, size
    yield range(start, len(parts))


def passage_text(sentences: Sequence[int], all_lines: Sequence[Line]) -> str:
    """Return what is added to a prompt to show a passage."""
    separators = (all_lines[i].separator if n else "\n" for n, i in enumerate(sentences))
    return "".join(map(Line.show, (all_lines[i] for i in sentences), separators))


def left_out(number: int) -> str:
    """Return the mark for a number of sentences that are left out."""
    return f" [… {number}]"


def documents_left_out(number: int) -> str:
    """Return the line that counts the documents that are left out."""
    return f"[… {number} document{'s' * (number != 1)}]"


def render(
    parts: Sequence[Part],
    all_lines: Sequence[Line],
    opened: Collection[int],
    shown: Collection[int],
) -> str:
    """Write a prompt.

    Args:
        parts: The documents and sections.
        all_lines: All sentences.
        opened: Indices of the parts that are not folded into what is around them.
        shown: Indices of the sentences that are shown.
    """
    pieces: list[str] = []
    num_closed = 0  # documents
    num_hidden = 0  # sentences since the last piece
    is_closed = False
    previous = -1

    def add(piece: str) -> None:
        nonlocal num_hidden
        if num_hidden:
            pieces.append(left_out(num_hidden))
            num_hidden = 0
        pieces.append(piece)

    for idx, part in enumerate(parts):
        if part.depth == 0:
            is_closed = idx not in opened
            num_closed += is_closed
        if is_closed:
            continue
        if idx in opened and part.heading:
            add(part.heading)
        for i in part.sentences:
            if i in shown:
                follows = previous == i - 1 and i > part.sentences.start
                add(all_lines[i].show(all_lines[i].separator if follows else "\n"))
                previous = i
            else:
                num_hidden += 1
    if num_hidden:
        pieces.append(left_out(num_hidden))
    if num_closed:
        pieces.append(f"\n\n{documents_left_out(num_closed)}")
    return "".join(pieces).removeprefix("\n\n")
