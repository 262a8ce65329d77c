"""The tools of the server, which assistants call."""

from collections.abc import Callable, Iterable
from itertools import groupby
from os import PathLike
from threading import Lock
from typing import TYPE_CHECKING

from pydantic import Field

from foveate.documents import Document, Section, Span
from foveate.documents.structure import format_path
from foveate.tasks.arguments import Unit
from foveate.tasks.hits import format_matches
from foveate.tasks.parameters import (
    ConditionParameters,
    ContextParameters,
    FoundParameters,
    SearchParameters,
)
from foveate.tasks.parameters import pydantic_field as of

# What runs models is imported when a tool needs it: assistants start their servers beforehand, and
# wait for each of them.
if TYPE_CHECKING:
    from sentence_transformers import CrossEncoder

    from foveate.index import Index, LibraryDocument

MAX_RESULTS = 50
MAX_READ = 200
MAX_TOKENS = 100_000
MAX_LINES = 100
_SHOWN_WORDS = 8  # of a section without a title

_NAMED = "The document's number or name as other tools return it, or its title."
_ONLY = "Only this document: its number or name as other tools return it."
_SECTION = "Only the section with this title, which `outline` shows."


class Tools:
    """The tools; the docstring of each is what an assistant reads.

    Args:
        open_index: Opens the library, when a tool is first used.
        rerank: See `Index.search`.
    """

    def __init__(
        self,
        open_index: "Callable[[], Index]",
        rerank: "CrossEncoder | str | PathLike[str] | None",
    ) -> None:
        self._open_index = open_index
        self._rerank = rerank
        self._opened: Index | None = None
        self._lock = Lock()  # the SDK runs tools in threads, and only one may load the model

    def outline(
        self,
        document: int | str | None = Field(None, description=_ONLY),
        section: str | None = Field(None, description=_SECTION),
        depth: int | None = Field(
            None, ge=1, description="Levels of sections to show, from 1; by default all."
        ),
        offset: int = Field(0, ge=0, description="Number of lines to pass over."),
    ) -> str:
        """List the documents or, of one document, the sections, with the sentences that they hold.

        Begin here to see what there is. Of a long document, show one or two levels, and then the
        sections of the one that matters. To find what is about something, `search` instead.
        """
        with self._lock:
            if document is None:
                head, lines = [], [_listed(one) for one in self._index.documents()]
            else:
                number, read = self._document(document)
                about = (f"document {number}", ", ".join(read.authors), read.date)
                head = [f"{read.title or read.name} ({'; '.join(filter(None, about))})"]
                lines = list(_section_lines(read, section, depth))
        rest = len(lines) - offset - MAX_LINES
        more = [f"… and {rest:,} more: give offset={offset + MAX_LINES}"] if rest > 0 else []
        shown = lines[offset : offset + MAX_LINES]
        return "\n".join([*head, *shown, *more]) or "Nothing was found."

    def search(
        self,
        query: str = of(SearchParameters, "query"),
        by: Unit = of(SearchParameters, "by"),
        top_k: int = of(SearchParameters, "top_k", le=MAX_RESULTS),
        document: int | str | None = Field(None, description=_ONLY),
        section: str | None = of(ConditionParameters, "section"),
        explain: bool = of(FoundParameters, "explain"),
    ) -> str:
        """Find passages, sections or documents by their meaning and their words.

        Describe what the text would say rather than giving single keywords: "the carrier pays for
        delays" finds more than "delay". Use by="section" to find where something is treated at
        length, and by="document" to find which documents are about it. To see the sentences around
        a result, `read` from a smaller number; if nothing fits, put it in other words.
        """
        with self._lock:
            hits = self._index.search(
                query,
                by=by,
                top_k=top_k,
                rerank=self._rerank if by == "passage" else None,
                explain=explain,
                section=section,
                document=self._number(document),
            )
            found = []
            for number, hit in enumerate(hits, 1):
                where = [_where(hit.span), f"document {hit.document_idx}, {_range(hit.inside)}"]
                where += filter(None, [format_matches(hit.matches)])
                found.append(f"{number}. {' · '.join(where)}\n{hit.quoted.text}\n")
        if hits and all(hit.likely is False for hit in hits):
            found.insert(0, "Probably not in here; what comes closest:\n")
        return "\n".join(found).strip() or "Nothing was found."

    def context(
        self,
        query: str | None = of(ContextParameters, "query"),
        document: int | str | None = Field(None, description=_ONLY),
        section: str | None = of(ConditionParameters, "section"),
        tokens: int = of(ContextParameters, "tokens", le=MAX_TOKENS),
    ) -> str:
        """Read a long document, or what the library says about something, in a limited space.

        It is a cut through the documents: what answers the query in full, what is near to it by its
        best sentences, and the rest by headings or a count, such as "[… 7]" for seven sentences
        that are left out. Numbers in brackets precede the sentences; the last lines say which
        sentences of which document they are. Use it to see the whole at once, before you `read` a
        part.
        """
        with self._lock:
            prompt = self._index.context(
                query, tokens=tokens, section=section, document=self._number(document)
            )
            shown = []
            for number, of_document in groupby(prompt.spans, prompt.document_idx.__getitem__):
                first, *_ = of_document
                sentence = prompt.sentence_idx[first] + 1
                name = prompt.spans[first].document
                shown.append(f"[{first}] is sentence {sentence} of {name}, document {number}")
        return "\n".join([prompt.text, "", *shown])

    def read(
        self,
        document: int | str = Field(description=_NAMED),
        section: str | None = Field(None, description=_SECTION),
        first: int | None = Field(
            None, description="Number of the first sentence, as the other tools return it."
        ),
        sentences: int = Field(100, ge=1, le=MAX_READ, description="Number of sentences."),
    ) -> str:
        """Read the text of a document, or of one section of it, word for word.

        Use it where a search result is not enough, for example to read the sentences around it, or
        a whole clause or chapter. Sentences are numbered through the document. Long texts come in
        portions: go on with the next number.
        """
        with self._lock:
            _, read = self._document(document)
        spans = read.spans()
        inside = range(len(spans)) if section is None else _section(read, section)[1]
        start = inside.start if first is None else first - 1
        if start not in inside:
            raise ValueError(
                f"first must be from {inside.start + 1} to {inside.stop}, got {start + 1}"
            )
        end = min(start + sentences, inside.stop)
        from foveate.tasks.surroundings import sentence_separators

        separators = sentence_separators(read)
        paragraphs = []
        for _, together in groupby(
            range(start, end), lambda i: (spans[i].path, spans[i].page, spans[i].speaker)
        ):
            one, *others = together
            text = spans[one].text + "".join(separators[i] + spans[i].text for i in others)
            paragraphs.append(f"[{one + 1}: {_where(spans[one])}]\n{text}\n")
        if rest := inside.stop - end:
            paragraphs.append(f"… and {_sentences(rest)} more: give first={end + 1}")
        return "\n".join(paragraphs).strip()

    @property
    def _index(self) -> "Index":
        if self._opened is None:
            self._opened = self._open_index()
        return self._opened

    def _number(self, document: int | str | None) -> int | None:
        """Return the number of the document that is to be searched; None for all of them."""
        return None if document is None else self._find(document).number

    def _document(self, document: int | str) -> tuple[int, Document]:
        """Return the number of a document, and the document."""
        number = self._find(document).number
        return number, self._index.document(number)

    def _find(self, document: int | str) -> "LibraryDocument":
        """Find a document by its number, its name, its title, or the end of its name.

        Raises:
            ValueError: There is none, or several have this name.
        """
        matches = [one for one in self._index.documents() if _is_meant(one, document)]
        if not matches:
            raise ValueError(
                f"the library has no document {document!r}: outline lists the documents"
            )
        if len(matches) > 1:
            raise ValueError(
                f"several documents match {document!r}: give the number of the one that you mean, "
                f"{_list(f'{one.number} ({_titled(one)})' for one in matches)}"
            )
        return matches[0]


def _is_meant(one: "LibraryDocument", document: int | str) -> bool:
    """Return whether a document has a number; or a name, a title or an end of its name."""
    if str(one.number) == str(document):  # some assistants give numbers as strings
        return True
    wanted, source = str(document).strip().casefold(), one.source.casefold()
    return isinstance(document, str) and (
        wanted in (source, one.title.casefold()) or source.endswith(f"/{wanted}")
    )


def _located(document: Document) -> Iterable[tuple[tuple[str, ...], Section, range]]:
    """Yield the path of each section, the section, and the sentences in it, all subsections too."""
    first = 0
    for path, section in document.walk():
        yield path, section, range(first, first + section.num_sentences)
        first += section.num_own_sentences


def _section(document: Document, title: str) -> tuple[tuple[str, ...], range]:
    """Return the path and the sentences of the section that is meant by a title.

    Args:
        document: The document.
        title: The section's title, or those around it too, as "Methods › Counting"; or else a part
            of the title. The first one counts.

    Raises:
        ValueError: There is no such section.
    """
    wanted = title.strip().casefold()
    titled = [(path, inside) for path, section, inside in _located(document) if section.title]
    named = [
        (path, inside)
        for path, inside in titled
        if wanted in (path[-1].casefold(), format_path(path).casefold())
    ]
    holding = [one for one in titled if wanted and wanted in one[0][-1].casefold()]
    if named or holding:
        return (named or holding)[0]
    raise ValueError(
        f"{document.name} has no section {title!r}: outline shows the titles of its sections"
    )


def _section_lines(document: Document, title: str | None, depth: int | None) -> Iterable[str]:
    """Show the sections of a document, or of one of its sections, a line each."""
    above, within = ((), None) if title is None else _section(document, title)
    texts = [sentence.text for sentence in document.sentences()]
    for (path, section, inside), span in zip(
        _located(document), document.section_spans(), strict=True
    ):
        level = len(path) - len(above)
        is_inside = within is None or (path[: len(above)] == above and inside.start in within)
        if is_inside and (depth is None or level <= depth):
            shown = section.title or f"({_shortened(texts[inside.start])})"
            yield f"{'  ' * level}{shown} [{span.place}; {_range(inside)}]"


def _listed(document: "LibraryDocument") -> str:
    size = _sentences(document.num_sentences)
    return f"{_titled(document)} (document {document.number}; {size})"


def _titled(document: "LibraryDocument") -> str:
    """Return the name of a document, with its title if that is another."""
    has_title = document.title and document.title != document.source
    return f"{document.source} — {document.title}" if has_title else document.source


def _where(span: Span) -> str:
    """Say where something is, on one line."""
    return " · ".join(
        filter(None, (span.document, span.place, format_path(span.path), span.speaker))
    )


def _range(inside: range) -> str:
    if len(inside) == 1:
        return f"sentence {inside.stop}"
    return f"sentences {inside.start + 1} to {inside.stop}"


def _sentences(number: int) -> str:
    return f"{number:,} sentence{'s' * (number != 1)}"


def _shortened(text: str) -> str:
    """Return the first words of a text."""
    words = text.split()
    return " ".join(words[:_SHOWN_WORDS]) + " …" * (len(words) > _SHOWN_WORDS)


def _list(names: Iterable[str]) -> str:
    """Name the first three."""
    several = list(names)
    return ", ".join(several[:3]) + f" and {len(several) - 3} more" * (len(several) > 3)
