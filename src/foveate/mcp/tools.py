"""The tools of the server, which assistants call."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from difflib import get_close_matches
from itertools import groupby, takewhile
from os import PathLike
from threading import Lock
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from pydantic import Field

from foveate.documents import Document, Section, Span
from foveate.documents.structure import format_path
from foveate.tasks.arguments import Unit

# What runs models is imported when a tool needs it: assistants start their servers beforehand, and
# wait for each of them.
if TYPE_CHECKING:
    from foveate.index import Index, LibraryDocument
    from foveate.inference import DocumentVectors, Encoder
    from foveate.tasks.hits import Hit

MAX_RESULTS = 50
MAX_CONTEXT = 20
MAX_READ = 200
MAX_TOKENS = 100_000
LISTED = 50
_SHOWN_WORDS = 8  # of a section without a title

Named: TypeAlias = Annotated[
    int | str,
    Field(description="The document's number or name as other tools return it, or its title."),
]
NamedOrNone: TypeAlias = Annotated[
    int | str | None,
    Field(description="Only this document: its number or name as other tools return it."),
]
InSection: TypeAlias = Annotated[
    str | None, Field(description="Only sections whose title contains this, ignoring case.")
]
OnlySection: TypeAlias = Annotated[
    str | None, Field(description="Only the section with this title, which `outline` shows.")
]


class Tools:
    """The tools; the docstring of each is what an assistant reads.

    Args:
        library: The folder of the library.
        model: See `Index.open`.
        options: See `Index.open`.
    """

    def __init__(
        self,
        library: str | PathLike[str],
        model: "Encoder | str | PathLike[str] | None",
        options: dict[str, Any],
    ) -> None:
        self._library = library
        self._model = model
        self._options = options
        self._opened: Index | None = None
        self._lock = Lock()  # the SDK runs tools in threads, and only one may load the model

    def search(
        self,
        query: Annotated[
            str, Field(description="What to look for, in plain words: a question or a description.")
        ],
        by: Annotated[
            Unit,
            Field(description='What to find: "passage", "section" or "document".'),
        ] = "passage",
        top_k: Annotated[int, Field(description=f"Number of results, 1 to {MAX_RESULTS}.")] = 5,
        document: NamedOrNone = None,
        section: InSection = None,
        context: Annotated[
            int, Field(description=f"Sentences to show before and after, 0 to {MAX_CONTEXT}.")
        ] = 0,
    ) -> str:
        """Find passages, sections or documents by their meaning and their words.

        Describe what the text would say rather than giving single keywords: "the carrier pays for
        delays" finds more than "delay". Use by="section" to find where something is treated at
        length, and by="document" to find which documents are about it. If the sentences around a
        result matter, ask for more context; if nothing fits, put it in other words.
        """
        _check_range("top_k", top_k, 1, MAX_RESULTS)
        _check_range("context", context, 0, MAX_CONTEXT)
        with self._lock:
            hits = self._index.search(
                query, by=by, top_k=top_k, section=section, document=self._number(document)
            )
            return self._results(hits, context)

    def ask(
        self,
        query: Annotated[str, Field(description="The question, as a whole sentence.")],
        top_k: Annotated[int, Field(description=f"Number of passages, 1 to {MAX_RESULTS}.")] = 3,
        document: NamedOrNone = None,
        section: InSection = None,
    ) -> str:
        """Find the passages that answer a question best.

        A passage is up to five neighbouring sentences of one section. The answer itself is left to
        you: take it from the passages only, and say so if they do not hold it. Ask one thing at a
        time.
        """
        _check_range("top_k", top_k, 1, MAX_RESULTS)
        with self._lock:
            answer = self._index.ask(
                query, top_k=top_k, section=section, document=self._number(document)
            )
            return self._results(answer.passages, 0)

    def context(
        self,
        query: Annotated[
            str | None,
            Field(
                description="What is looked for; by default a digest, for which name a document."
            ),
        ] = None,
        document: NamedOrNone = None,
        section: InSection = None,
        tokens: Annotated[
            int, Field(description=f"Length in tokens, estimated, 1 to {MAX_TOKENS}.")
        ] = 4000,
    ) -> str:
        """Read a long document, or what the library says about something, in a limited space.

        It is a cut through the documents: what answers the query in full, what is near to it by its
        best sentences, and the rest by headings or a count, such as "[… 7]" for seven sentences
        that are left out. Numbers in brackets precede the sentences; the last lines say which
        document they are from. Use it to see the whole at once, before you `read` a part.
        """
        _check_range("tokens", tokens, 1, MAX_TOKENS)
        with self._lock:
            prompt = self._index.context(
                query, tokens=tokens, section=section, document=self._number(document)
            )
        numbers: dict[int, list[int]] = {}
        for number, document_idx in prompt.document_idx.items():
            numbers.setdefault(document_idx, []).append(number)
        ranges = [
            f"[{one[0]}] to [{one[-1]}]: {prompt.spans[one[0]].document} · document {document_idx}"
            for document_idx, one in numbers.items()
        ]
        return "\n".join([prompt.text, "", *ranges])

    def read(
        self,
        document: Named,
        section: OnlySection = None,
        offset: Annotated[int, Field(description="Number of sentences to pass over.")] = 0,
        sentences: Annotated[
            int, Field(description=f"Number of sentences, 1 to {MAX_READ}.")
        ] = 100,
    ) -> str:
        """Read the text of a document, or of one section of it, word for word.

        Use it where the sentences around a search result are not enough, for example to read a
        whole clause or chapter. Long texts come in portions: go on with the next offset.
        """
        _check_range("sentences", sentences, 1, MAX_READ)
        with self._lock:
            _, read = self._document(document)
        part = read if section is None else _part(read, section)
        spans = part.spans()
        _check_range("offset", offset, 0, len(spans) - 1)
        end = min(offset + sentences, len(spans))
        from foveate.tasks.surroundings import sentence_separators

        shown = zip(spans[offset:end], sentence_separators(part)[offset:end], strict=True)
        paragraphs = []
        for _, together in groupby(shown, lambda one: (one[0].path, one[0].page, one[0].speaker)):
            (first, _), *others = together
            text = first.text + "".join(separator + span.text for span, separator in others)
            paragraphs.append(f"[{_where(first)}]\n{text}\n")
        if rest := len(spans) - end:
            paragraphs.append(f"… and {_sentences(rest)} more: give offset={end}")
        return "\n".join(paragraphs).strip()

    def summarize(
        self,
        document: Named,
        query: Annotated[
            str | None, Field(description="What the summary is to be about; by default all of it.")
        ] = None,
        section: OnlySection = None,
        sentences: Annotated[int, Field(description="Number of sentences, 1 to 100.")] = 5,
    ) -> str:
        """Summarize a document, or one section of it, by its most important sentences.

        They are sentences of the document itself, in its order, each with its place. For a book,
        get the outline first and summarize the chapters one by one.
        """
        _check_range("sentences", sentences, 1, 100)
        with self._lock:
            number, read = self._document(document)
            part, vectors = read, self._index.vectors(number)
            if section is not None:
                part, vectors = _part(read, section), _part_vectors(read, section, vectors)
            from foveate.tasks.summarize import extract

            encoder = self._index.encoder
            summary = extract(part, vectors, encoder, query=query, sentences=sentences)
        return "\n".join(f"{one.text} [{_where(one.span)}]" for one in summary.sentences)

    def outline(
        self,
        document: Named,
        max_depth: Annotated[
            int | None,
            Field(description="Deepest level of sections to show, from 1; by default all."),
        ] = None,
    ) -> str:
        """Show the sections of a document, with their lengths, pages and first sentences.

        Use it to see how a long document is built before summarizing its parts or searching in one
        of its sections.
        """
        if max_depth is not None and max_depth < 1:
            raise ValueError(f"max_depth must be at least 1, got {max_depth}")
        with self._lock:
            number, read = self._document(document)
        sentences = list(read.sentences())
        first = 0
        authors = ", ".join(read.authors)
        about = (f"document {number}", authors, read.date, _sentences(len(sentences)))
        lines = [f"{read.title or read.name} ({'; '.join(filter(None, about))})"]
        for (path, section), span in zip(read.walk(), read.section_spans(), strict=True):
            begins = sentences[first].text
            first += section.num_own_sentences
            if max_depth is not None and len(path) > max_depth:
                continue
            title = section.title or f"({_shortened(begins)})"
            size = _sentences(section.num_sentences)
            lines.append(f"{'  ' * len(path)}{title} [{span.place}; {size}]")
        return "\n".join(lines)

    def list_documents(
        self,
        contains: Annotated[
            str,
            Field(description="Only documents whose name or title contains this, ignoring case."),
        ] = "",
        offset: Annotated[int, Field(description="Number of documents to pass over.")] = 0,
    ) -> str:
        """List the documents of the library, 50 at a time, in the order of their names.

        To find documents about something, use `search` with by="document" instead.
        """
        if offset < 0:
            raise ValueError(f"offset must be at least 0, got {offset}")
        wanted = contains.casefold()
        with self._lock:
            found = [
                one
                for one in self._index.documents()
                if wanted in one.source.casefold() or wanted in one.title.casefold()
            ]
        shown = found[offset : offset + LISTED]
        lines = [
            f"{_titled(one)} (document {one.number}; {_sentences(one.num_sentences)})"
            for one in shown
        ]
        rest = len(found) - offset - len(shown)
        if rest > 0:
            lines.append(f"… and {rest:,} more: give offset={offset + len(shown)}")
        return "\n".join(lines) or "Nothing was found."

    @property
    def _index(self) -> "Index":
        if self._opened is None:
            from foveate.index import Index

            self._opened = Index.open(self._library, model=self._model, **self._options)
        return self._opened

    def _results(self, hits: "Sequence[Hit]", num_sentences: int) -> str:
        """Reply with what was found, and the sentences around it."""
        from foveate.tasks.surroundings import surroundings

        found = []
        for number, hit in enumerate(hits, 1):
            document = self._index.document(hit.document_idx)
            [near] = surroundings(document, [hit.quoted], num_sentences)
            text = "".join(one.separator + one.span.text for one in near).strip()
            where = f"{_where(hit.span)} · document {hit.document_idx}"
            found.append(f"{number}. {where}\n{text}\n")
        if hits and all(hit.likely is False for hit in hits):
            found.insert(0, "Probably not in here; what comes closest:\n")
        return "\n".join(found).strip() or "Nothing was found."

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
        documents = list(self._index.documents())
        matches = _matching(document, documents)
        if len(matches) == 1:
            return matches[0]
        if matches:
            raise ValueError(
                f"several documents match {document!r}: give the number of the one that you mean, "
                f"{_list(f'{one.number} ({_titled(one)})' for one in matches)}"
            )
        known = {
            name: one.source
            for one in reversed(documents)
            for name in (one.title, one.source.rpartition("/")[2], one.source)
        }
        close = dict.fromkeys(known[one] for one in get_close_matches(str(document), known, n=3))
        advice = f"did you mean {_list(close)}?" if close else "list_documents shows what there is"
        raise ValueError(f"the library has no document {document!r}: {advice}")


def _matching(
    document: int | str, documents: "Sequence[LibraryDocument]"
) -> "Sequence[LibraryDocument]":
    """Return the documents with a number; or with a name, a title or the end of a name."""
    name = str(document)
    wanted = name.strip().casefold()
    numbered = [one for one in documents if str(one.number) == name]
    if isinstance(document, int):
        return numbered
    matches = (
        [one for one in documents if one.source == name],
        [one for one in documents if wanted in (one.source.casefold(), one.title.casefold())],
        [one for one in documents if one.source.casefold().endswith(f"/{wanted}")],
        numbered,  # some assistants give numbers as strings
    )
    return next(filter(None, matches), [])


def _part(document: Document, title: str) -> Document:
    """Return the document with nothing but the first section of a title.

    Args:
        document: The document.
        title: The section's title, or those around it too, as "Methods › Counting"; or else a part
            of the title.

    Raises:
        ValueError: There is no such section.
    """
    path, part = list(document.walk())[_section_idx(document, title)]
    for outer in reversed(path[:-1]):  # so that places name all sections around them
        part = Section(outer, (), (part,))
    return replace(document, title=path[-1], sections=(part,), source=document.name or None)


def _part_vectors(document: Document, title: str, vectors: "DocumentVectors") -> "DocumentVectors":
    """Return the vectors of what `_part` returns; that of the document is its section's."""
    walked = list(document.walk())
    idx = _section_idx(document, title)
    path, section = walked[idx]
    start = sum(one.num_own_sentences for _, one in walked[:idx])
    inside = slice(start, start + section.num_sentences)
    deeper = takewhile(lambda one: len(one[0]) > len(path), walked[idx + 1 :])
    subsections = [idx + i for i, _ in enumerate(deeper, start=1)]
    sections = vectors.sections[[idx] * len(path) + subsections]  # those around it have no others
    salience = None if vectors.salience is None else vectors.salience[inside]
    return replace(
        vectors,
        document=vectors.sections[idx],
        sections=sections,
        sentences=vectors.sentences[inside],
        salience=salience,
    )


def _section_idx(document: Document, title: str) -> int:
    """Return the index in `Document.walk` of the section that is meant by a title."""
    wanted = title.strip().casefold()
    sections = list(enumerate(document.walk()))
    named = [
        idx
        for idx, (path, section) in sections
        if section.title and wanted in (section.title.casefold(), format_path(path).casefold())
    ]
    holding = [
        idx for idx, (_, section) in sections if wanted and wanted in section.title.casefold()
    ]
    if not (named or holding):
        raise ValueError(
            f"{document.name} has no section {title!r}: outline shows the titles of its sections"
        )
    return (named or holding)[0]


def _titled(document: "LibraryDocument") -> str:
    """Return the name of a document, with its title if that is another."""
    has_title = document.title and document.title != document.source
    return f"{document.source} — {document.title}" if has_title else document.source


def _where(span: Span) -> str:
    """Say where something is, on one line."""
    return " · ".join(
        filter(None, (span.document, span.place, format_path(span.path), span.speaker))
    )


def _check_range(name: str, value: int, lowest: int, highest: int) -> None:
    if not lowest <= value <= highest:
        raise ValueError(f"{name} must be from {lowest} to {highest}, got {value}")


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
