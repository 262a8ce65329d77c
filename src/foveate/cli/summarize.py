"""`foveate summarize`."""

from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from foveate.cache import Cache
from foveate.documents import Document
from foveate.documents.language import FALLBACK
from foveate.progress import progress
from foveate.tasks.surroundings import title_of

from . import common
from .reading import FilesOrNone, Reading, takes_options
from .writing import Writing, make_prompt, show_written, written_as_json

if TYPE_CHECKING:
    from foveate.index import Index
    from foveate.inference import LLM, Encoder, Summarizer
    from foveate.tasks.summarize import Summary


@takes_options
def command(
    files: FilesOrNone = None,
    sentences: Annotated[
        int | None,
        typer.Option(
            "--sentences",
            "-s",
            metavar="N",
            min=1,
            help="Number of sentences. Default: 5.",
            show_default=False,
        ),
    ] = None,
    words: Annotated[
        int | None,
        typer.Option(
            "--words",
            "-w",
            metavar="N",
            min=1,
            help="Number of words, instead of sentences.",
            show_default=False,
        ),
    ] = None,
    query: Annotated[
        str | None,
        typer.Option(
            "--query",
            "-q",
            metavar="TEXT",
            help="What the summary should be about.",
            show_default=False,
        ),
    ] = None,
    keywords: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Number of keywords to detect, which guide a model with global tokens, such as "
            "LED.",
            show_default=False,
        ),
    ] = None,
    keyword: Annotated[
        list[str] | None,
        typer.Option(
            metavar="WORD",
            help="A word or phrase that guides such a model instead; may be repeated.",
            show_default=False,
        ),
    ] = None,
    context: common.Context = 0,
    model: common.WriterModel = None,
    json: common.Json = False,
    *,
    writing: Writing,
    library: common.Library,
    loading: common.Loading,
    reading: Reading,
) -> None:
    """Summarize documents by their most central sentences, each with its place.

    \b
    foveate summarize paper.pdf
    foveate summarize minutes.txt --words 150 --query "what was decided?"
    foveate summarize report.html --model google/pegasus-x-base-arxiv
    foveate summarize minutes.txt --model allenai/led-base-16384 --keyword budget
    cat notes.md | foveate summarize - --format markdown --json
    foveate summarize book.txt --llm http://localhost:11434/v1 --llm-model qwen3

    With --library, it summarizes what a library says about a query, from the
    documents that match it best; without a query, a document of it.

    \b
    foveate summarize --query "who pays for delays?" --library contracts.library
    foveate summarize --path contract.md --library contracts.library
    """
    if not (files or library.folder):
        raise ValueError(
            "there is nothing to summarize: name files (- for standard input), or a library with "
            "--library"
        )
    library.check(files, reading)
    if (llm := writing.server()) is not None:
        if keywords is not None or keyword:
            raise ValueError("keywords guide a checkpoint that writes itself: leave out --llm")
        length: dict[str, Any] = {"sentences": sentences, "words": words}
        if library.folder is None:
            encoder = common.load_encoder(model, loading, reading.cache)
            _write(reading.documents(files or []), query, length, writing, llm, encoder, json)
            return
        from foveate.tasks.write import summary_request, write

        prompt, encoder = make_prompt(
            query, None, writing.budget, None, model, library, loading, reading
        )
        with progress("Waiting for the summary", None):
            written = write(summary_request(prompt, query, **length), prompt, llm, encoder)
        if json:
            common.print_json({"query": query, **written_as_json([written])})
        else:
            show_written(written)
        return
    if library.folder is not None:
        if keywords is not None or keyword:
            raise ValueError("keywords guide a generative model, which reads files, not a library")
        index = common.open_library(library.folder, model, loading)
        of_library = index.summarize(query, sentences=sentences, words=words, **library.conditions)
        _show_summary_of_library(library, index, query, of_library, context, json)
        return
    documents = reading.documents(files or [])
    common.prepare()
    from foveate.tasks.hits import Hit
    from foveate.tasks.summarize import summarize

    guidance = _guidance(keywords, keyword, documents[0].language or FALLBACK)
    loaded = _load(model, loading, reading.cache, guidance)
    printed = []
    for document in documents:  # so that what is done is shown, if interrupted
        summary = summarize(document, query=query, sentences=sentences, words=words, model=loaded)
        if json:
            chosen = [Hit(one.span, one.span, one.score, 0) for one in summary.sentences]
            fields = {"sentences": common.results_as_json([document], chosen, context)}
            if summary.written is not None:
                fields |= written_as_json([summary.written])
            printed.append({**_as_json(document), "text": summary.text, **fields})
        else:
            _show(document, summary, context)
    if json:
        common.print_json(printed)


def _write(
    documents: list[Document],
    query: str | None,
    length: dict[str, Any],
    writing: Writing,
    llm: "LLM",
    encoder: "Encoder",
    json: bool,
) -> None:
    """Have a language model summarize documents; print each part as soon as it is written."""
    from foveate.tasks.write import write_summary

    printed = []
    for document in documents:
        if not json:
            _show_title(document)
        parts = []
        for part in write_summary(
            document, llm=llm, query=query, tokens=writing.budget, model=encoder, **length
        ):
            parts.append(part)
            if not json:
                show_written(part)
        printed.append({**_as_json(document), **written_as_json(parts)})
    if json:
        common.print_json(printed)


def _load(
    model: str | None,
    loading: common.Loading,
    cache: Cache | None,
    guidance: dict[str, Any],
) -> "Encoder | Summarizer":
    """Load what summarizes: an encoder or, if the checkpoint writes, a `Summarizer`."""
    from foveate.inference import Encoder

    if model is not None:
        from foveate.inference import Summarizer  # takes seconds

        loaded = common.load_encoder_or(Summarizer, model, loading, cache, **guidance)
    else:
        loaded = common.load_encoder(None, loading, cache)
    if guidance and isinstance(loaded, Encoder):
        raise ValueError("keywords guide a generative model: name one, such as LED, with --model")
    return loaded


def _as_json(document: Document) -> dict[str, Any]:
    """Return the fields of a document whose summary is printed."""
    return {
        "document": document.name,
        "title": document.title,
        "authors": document.authors,
        "date": document.date,
        "language": document.language,
    }


def _show_summary_of_library(
    library: common.Library,
    index: "Index",
    query: str | None,
    summary: "Summary",
    context: int,
    json: bool,
) -> None:
    """Print a summary of a library with the document and the place of each of its sentences."""
    from foveate.index.answers import LibrarySentence
    from foveate.tasks.hits import Hit

    hits = [
        Hit(one.span, one.span, one.score, one.document_idx)
        for one in summary.sentences
        if isinstance(one, LibrarySentence)
    ]
    documents, hits = common.documents_of(library, index, hits)
    if json:
        fields = common.results_as_json(documents, hits, context)
        common.print_json({"query": query, "text": summary.text, "sentences": fields})
        return
    common.show_results(documents, hits, context, are_named=True)


def _guidance(
    num_keywords: int | None, keywords: list[str] | None, language: str
) -> dict[str, Any]:
    """Return the options of `Summarizer.from_pretrained` that say which keywords guide it."""
    from foveate.detectors import given_keywords

    if num_keywords is not None and keywords:
        raise ValueError("give either --keywords, to detect them, or --keyword for each, not both")
    if keywords:
        return {"detector": given_keywords(keywords), "num_keywords": len(keywords)}
    if num_keywords is None:
        return {}
    return {"num_keywords": num_keywords, "language": language}


def _show(document: Document, summary: "Summary", num_sentences: int) -> None:
    """Print a summary with the place of each of its sentences."""
    from foveate.tasks.surroundings import surroundings

    _show_title(document)
    if summary.written is not None:
        show_written(summary.written)
    spans = [sentence.span for sentence in summary.sentences]
    for span, near in zip(spans, surroundings(document, spans, num_sentences), strict=True):
        common.show_sentences(near, common.place(span))


def _show_title(document: Document) -> None:
    source = f"  [dim]{escape(document.source)}[/dim]" if document.title and document.source else ""
    common.console.print(f"[bold]{escape(title_of(document))}[/bold]{source}\n")
