"""`foveate summarize`."""

from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from foveate.documents import Document
from foveate.documents.language import FALLBACK

from . import common
from .reading import Files, Reading, takes_reading_options

if TYPE_CHECKING:
    from foveate.tasks.summarize import Summary


@takes_reading_options
def command(
    files: Files,
    sentences: Annotated[
        int | None,
        typer.Option(
            "--sentences", "-s", help="Number of sentences. Default: 5.", show_default=False
        ),
    ] = None,
    words: Annotated[
        int | None,
        typer.Option(
            "--words", "-w", help="Number of words, instead of sentences.", show_default=False
        ),
    ] = None,
    query: Annotated[
        str | None,
        typer.Option("--query", "-q", help="What the summary should be about.", show_default=False),
    ] = None,
    keywords: Annotated[
        int | None,
        typer.Option(
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
    model: Annotated[
        str | None,
        typer.Option(
            metavar="PATH",
            help="Checkpoint, a folder or a name on the hub. An encoder chooses sentences; a "
            "sequence-to-sequence model writes the summary in its own words. Default: "
            "all-MiniLM-L6-v2, which is installed with foveate.",
            show_default=False,
        ),
    ] = None,
    device: common.Device = None,
    dtype: common.DType = None,
    json: common.Json = False,
    *,
    reading: Reading,
) -> None:
    """Summarize documents by their most central sentences, each with its place.

    \b
    foveate summarize paper.pdf
    foveate summarize minutes.txt --words 150 --query "what was decided on the budget?"
    foveate summarize report.html --model google/pegasus-x-base-arxiv
    foveate summarize minutes.txt --model allenai/led-base-16384 --keyword budget --keyword hiring
    cat notes.md | foveate summarize - --format markdown --json
    """
    documents = reading.documents(files)
    common.quiet()
    from foveate.inference import Encoder, Summarizer
    from foveate.tasks.summarize import summarize

    guidance = _guidance(keywords, keyword, documents[0].language or FALLBACK)
    loaded = common.load_encoder_or(Summarizer, model, device, dtype, **guidance)
    if guidance and isinstance(loaded, Encoder):
        raise ValueError(
            "keywords guide a model that writes text: name one, such as LED, with --model"
        )
    summaries = summarize(documents, query=query, sentences=sentences, words=words, model=loaded)
    if json:
        common.print_json(list(map(_as_json, documents, summaries)))
        return
    for document, summary in zip(documents, summaries, strict=True):
        _show(document, summary)


def _guidance(
    num_keywords: int | None, keywords: list[str] | None, language: str
) -> dict[str, Any]:
    """Return the options of `Summarizer.from_pretrained` that say which keywords guide it."""
    from foveate.detectors import given_keywords

    if num_keywords is not None and keywords:
        raise ValueError("give either --keywords, to detect them, or every --keyword, not both")
    if keywords:
        return {"detector": given_keywords(keywords), "num_keywords": len(keywords)}
    if num_keywords is None:
        return {}
    if num_keywords < 1:
        raise ValueError(f"--keywords must be at least 1, got {num_keywords}")
    return {"num_keywords": num_keywords, "language": language}


def _as_json(document: Document, summary: "Summary") -> dict[str, Any]:
    return {
        "document": document.name,
        "title": document.title,
        "text": summary.text,
        "sentences": [common.as_json(chosen.span, chosen.score) for chosen in summary.sentences],
    }


def _show(document: Document, summary: "Summary") -> None:
    show = common.console.print
    source = document.source if document.title and document.source else ""
    show(f"[bold]{escape(common.name_of(document))}[/bold]  [dim]{escape(source)}[/dim]\n")
    if not summary.sentences:
        show(escape(summary.text))
    for chosen in summary.sentences:
        where = common.place(chosen.span)
        show(f"{escape(chosen.span.text)}\n  [dim]{escape(where)}[/dim]\n")
