"""Results as an HTML page: the text of the documents with the results highlighted."""

from collections.abc import Iterator, Sequence
from html import escape
from importlib.resources import files
from itertools import accumulate, groupby
from os import PathLike

from foveate.documents import Document, Paragraph, as_documents
from foveate.documents.sentences import join_sentences
from foveate.documents.structure import format_path
from foveate.files import atomic_write
from foveate.tasks.ask import Passage
from foveate.tasks.context import contexts, title_of
from foveate.tasks.search import Hit

MAX_CHARACTERS = 2_000_000
"""Longest text that is shown as a whole; of longer ones, only the sections with results are."""
MAX_OPEN_SECTIONS = 60
"""Most sections whose titles are listed at once; longer contents are to be opened."""

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{heading}</title>
<style>
{style}</style>
</head>
<body>
<a class="skip" href="#text">Skip to the text</a>
<header>
<h1>{heading}</h1>
"""
_LISTS = {"item": "items", "table": "rows", "reference": "references"}
"""Kinds of paragraphs that are shown as lists, and the class of these lists."""

_BOXES = {"caption", "footnote", "formula"}
"""Kinds of paragraphs with a style of their own."""


def write_report(
    path: str | PathLike[str],
    heading: str,
    documents: Document | Sequence[Document],
    results: Sequence[Hit | Passage],
    written: Sequence[str] = (),
) -> None:
    """Write an HTML file with results, and the text of their documents with the results marked.

    The file is self-contained: it has no scripts and loads nothing. If the documents with results
    have more than `MAX_CHARACTERS` characters, only the sections with results are shown.

    Args:
        path: The file to write.
        heading: What was asked.
        documents: One document or a sequence.
        results: The results, in the order in which to list them.
        written: Texts that a model wrote, shown above the results.

    Raises:
        OSError: The file cannot be written.

    Example:
        >>> from foveate import Document, search
        >>> from foveate.tasks.report import write_report
        >>> sea = Document.from_sections("Sea", [("Fish", "Cod swim. They eat.")])
        >>> hits = search("What do fish live on?", sea, top_k=1)
        >>> write_report(getfixture("tmp_path") / "sea.html", "Food", sea, hits)
    """
    page = _render(heading, as_documents(documents), results, written)
    with atomic_write(path) as temporary, temporary.open("w", encoding="utf-8") as file:
        file.writelines(page)


def _render(
    heading: str,
    documents: list[Document],
    results: Sequence[Hit | Passage],
    written: Sequence[str],
) -> Iterator[str]:
    """Compose the page."""
    with_results = sorted({result.document_idx for result in results})
    size = sum(len(documents[idx].text) for idx in with_results)
    texts = [
        _DocumentText(documents[idx], idx, results, is_whole=size <= MAX_CHARACTERS)
        for idx in with_results
    ]
    style = files(__package__).joinpath("report.css").read_text(encoding="utf-8")
    yield _PAGE.format(heading=escape(heading), style=style)
    for text in written:
        yield f'<p class="written" dir="auto">{escape(text)}</p>\n'
    yield f"<p>{_count(results, documents, texts)}</p>\n</header>\n"
    if texts:
        yield '<div class="panels">\n<div class="side">\n<nav aria-labelledby="results">\n'
        yield '<h2 id="results">Results</h2>\n<ol>\n'
        for number, result in enumerate(results, 1):
            name = title_of(documents[result.document_idx]) if len(texts) > 1 else ""
            yield _entry(number, result, name)
        yield '</ol>\n</nav>\n<nav aria-labelledby="contents">\n<h2 id="contents">Contents</h2>\n'
        for shown in texts:
            yield from shown.outline()
        yield '</nav>\n</div>\n<main id="text" tabindex="-1">\n'
        for shown in texts:
            yield from shown.article()
        yield "</main>\n</div>\n"
    yield "</body>\n</html>\n"


def _count(
    results: Sequence[Hit | Passage], documents: list[Document], texts: "list[_DocumentText]"
) -> str:
    """Say how many results there are, and which part of the text is left out."""
    names = ", ".join(title_of(document) for document in documents[:3])
    if len(documents) > 3:
        names = f"{len(documents):,} documents"
    counted = f"{len(results):,} {'result' if len(results) == 1 else 'results'} in {escape(names)}"
    if all(text.is_whole for text in texts):
        return counted
    return f"{counted}. The text is long: only the sections with results are shown."


def _entry(number: int, result: Hit | Passage, document: str) -> str:
    """Return a result's entry in the list."""
    span = result.span
    parts = (document, span.speaker, span.place, format_path(span.path))
    where = " · ".join(filter(None, parts))
    return (
        f'<li id="entry-{number}"><a href="#result-{number}" dir="auto">'
        f"{escape(result.quoted.text)}</a>\n"
        f'<span class="place">{result.score:.2f} · {escape(where)}</span></li>\n'
    )


class _DocumentText:
    """The outline and the text of a document, with its results marked."""

    def __init__(
        self, document: Document, idx: int, results: Sequence[Hit | Passage], *, is_whole: bool
    ) -> None:
        self.document = document
        self.is_whole = is_whole
        self._prefix = f"document-{idx + 1}"
        numbers = [number for number, one in enumerate(results, 1) if one.document_idx == idx]
        spans = [results[number - 1].best for number in numbers]
        self._marked: set[int] = set()  # offsets at which sentences of results begin
        self._numbers: dict[int, list[int]] = {}  # of the results that begin at an offset
        for number, sentences in zip(numbers, contexts(document, spans, 0), strict=True):
            self._marked.update(sentence.span.start for sentence in sentences)
            self._numbers.setdefault(sentences[0].span.start, []).append(number)
        self._sections = list(document.walk())
        self._shown = range(len(self._sections)) if is_whole else self._sections_with_results()
        pages = document.spans() if document.layout else []
        self._pages = {span.start: span.page for span in pages}
        self._page: int | None = None

    def _sections_with_results(self) -> set[int]:
        """Return the sections that hold results, and those that these are in."""
        marked = [sentence.start in self._marked for sentence in self.document.sentences()]
        num_marked = [0, *accumulate(marked)]
        shown, first = set(), 0
        for i, (_, section) in enumerate(self._sections):
            if num_marked[first + section.num_sentences] > num_marked[first]:
                shown.add(i)
            first += section.num_own_sentences
        return shown

    def outline(self) -> Iterator[str]:
        """Compose the titles of the sections, with links to those that are shown."""
        name = escape(title_of(self.document))
        state = " open" if len(self._sections) <= MAX_OPEN_SECTIONS else ""
        yield f'<details{state}><summary dir="auto">{name}</summary>\n<ul>\n'
        for i, (path, section) in enumerate(self._sections):
            if section.title:
                title = escape(section.title)
                if i in self._shown:
                    title = f'<a href="#{self._prefix}-{i}">{title}</a>'
                depth = min(len(path), 6)
                yield f'<li class="depth-{depth}" dir="auto">{title}</li>\n'
        yield "</ul>\n</details>\n"

    def article(self) -> Iterator[str]:
        """Compose the text."""
        language = f' lang="{escape(self.document.language)}"' if self.document.language else ""
        yield f'<article{language} dir="auto" aria-labelledby="{self._prefix}">\n'
        yield f'<h2 id="{self._prefix}">{escape(title_of(self.document))}</h2>\n'
        for i, (path, section) in enumerate(self._sections):
            if i not in self._shown:
                continue
            if section.title:
                level = len(path) + 2
                tag = f"h{level}" if level <= 6 else f'div role="heading" aria-level="{level}"'
                yield f'<{tag} id="{self._prefix}-{i}">{escape(section.title)}</{tag.split()[0]}>\n'
            for kind, paragraphs in groupby(section.paragraphs, key=lambda one: one.kind):
                yield from self._paragraphs(kind, paragraphs)
        yield "</article>\n"

    def _paragraphs(self, kind: str, paragraphs: Iterator[Paragraph]) -> Iterator[str]:
        """Compose consecutive paragraphs of one kind."""
        if kind in _LISTS:
            yield f'<ul class="{_LISTS[kind]}">\n'
            for paragraph in paragraphs:
                sentences = self._sentences(paragraph)
                entries = [self._join(sentences)] if kind == "item" else sentences
                yield "".join(f"<li>{entry}</li>\n" for entry in entries)
            yield "</ul>\n"
            return
        for paragraph in paragraphs:
            if kind == "code":
                yield f'<pre tabindex="0">{chr(10).join(self._sentences(paragraph))}</pre>\n'
                continue
            speaker = f"<b>{escape(paragraph.speaker)}:</b> " if paragraph.speaker else ""
            style = f' class="{kind}"' if kind in _BOXES else ""
            yield f"<p{style}>{speaker}{self._join(self._sentences(paragraph))}</p>\n"

    def _join(self, sentences: list[str]) -> str:
        return join_sentences(sentences, self.document.language)

    def _sentences(self, paragraph: Paragraph) -> list[str]:
        """Compose the sentences of a paragraph: the results marked, and where each page begins."""
        composed = []
        for sentence in paragraph.sentences:
            text = escape(sentence.text)
            if sentence.start in self._marked:
                text = f"<mark>{text}</mark>"
            for number in reversed(self._numbers.get(sentence.start, ())):
                text = (
                    f'<a class="number" id="result-{number}" href="#entry-{number}" '
                    f'aria-label="Result {number}, back to the list">{number}</a>{text}'
                )
            page = self._pages.get(sentence.start)
            if page is not None and page != self._page:
                self._page = page
                text = f'<span class="page">page {page}</span> {text}'
            composed.append(text)
        return composed
