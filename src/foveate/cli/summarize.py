"""`foveate summarize`."""

from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from foveate.documents import Document

from . import common

if TYPE_CHECKING:
    from foveate.tasks.summarize import Summary, SummarySentence


def command(
    files: common.Files,
    sentences: Annotated[
        int | None,
        typer.Option(
            "--sentences", "-s", help="Number of sentences; default 5.", show_default=False
        ),
    ] = None,
    words: Annotated[
        int | None,
        typer.Option("--words", "-w", help="Number of words instead.", show_default=False),
    ] = None,
    query: Annotated[
        str | None,
        typer.Option("--query", "-q", help="What the summary is to be about.", show_default=False),
    ] = None,
    keywords: Annotated[
        int | None,
        typer.Option(
            help="Steer a model with global tokens, such as LED, by that many keywords of the "
            "document.",
            show_default=False,
        ),
    ] = None,
    keyword: Annotated[
        list[str] | None,
        typer.Option(
            metavar="WORD",
            help="Steer it by your own, words or phrases; may be repeated.",
            show_default=False,
        ),
    ] = None,
    format: common.Format = None,
    language: common.Language = "en",
    model: Annotated[
        str | None,
        typer.Option(
            metavar="PATH",
            help="Checkpoint, a folder or a name on the hub. A sequence-to-sequence model writes "
            "the summary in its own words; an encoder chooses sentences. Default: "
            "all-MiniLM-L6-v2, installed with foveate.",
            show_default=False,
        ),
    ] = None,
    device: common.Device = None,
    dtype: common.DType = None,
    json: common.Json = False,
) -> None:
    """Summarize documents by their most central sentences, each with its place.

    \b
    foveate summarize paper.pdf
    foveate summarize minutes.txt --words 150 --query "what was decided on the budget?"
    foveate summarize report.html --model google/pegasus-x-base-arxiv
    foveate summarize minutes.txt --model allenai/led-base-16384 --keyword budget --keyword hiring
    cat notes.md | foveate summarize - --format markdown --json
    """
    documents = common.read(files, format, language)
    common.quiet()
    from foveate.tasks.summarize import summarize

    using = _reader_or_writer(model, device, dtype, _steering(keywords, keyword, language))
    summaries = [
        summarize(document, sentences=sentences, words=words, query=query, **using)
        for document in documents
    ]
    found = list(zip(documents, summaries, strict=True))
    if json:
        common.print_json([_as_dict(document, summary) for document, summary in found])
        return
    for document, summary in found:
        _show(document, summary)


def _steering(number: int | None, own: list[str] | None, language: str) -> dict[str, Any]:
    """What a model that writes is steered by."""
    from foveate.detectors import given_keywords, tfidf

    if number is not None and own:
        raise ValueError("give --keywords, to detect them, or each --keyword, not both")
    if own:
        return {"detector": given_keywords(own), "k": len(own)}
    if number is None:
        return {}
    if number < 1:
        raise ValueError(f"--keywords must be at least 1, got {number}")
    return {"detector": partial(tfidf, language=language), "k": number}


def _reader_or_writer(
    model: str | None, device: str | None, dtype: str | None, steering: dict[str, Any]
) -> dict[str, Any]:
    """Load what is named: a model that writes, or an encoder."""
    if model is not None:
        from foveate.inference.summarizer import Generator
        from foveate.models.loading import load_config

        if load_config(model).is_encoder_decoder:
            writer = Generator.from_pretrained(model, device=device, dtype=dtype, **steering)
            return {"model": writer}
    if steering:
        raise ValueError("keywords steer a model that writes: name one, such as LED, with --model")
    return {"encoder": common.encoder(model, device, dtype)}


def _as_dict(document: Document, summary: "Summary") -> dict[str, Any]:
    return {
        "source": document.source,
        "title": document.title,
        "text": summary.text,
        "sentences": [
            {
                **asdict(_located(document, chosen)),
                "score": round(chosen.score, 4),
            }
            for chosen in summary.sentences
        ],
    }


def _located(document: Document, chosen: "SummarySentence") -> common.Located:
    return common.Located.of(document, chosen.sentence, chosen.place.path, chosen.place.speaker)


def _show(document: Document, summary: "Summary") -> None:
    show = common.console.print
    source = document.source if document.title and document.source else ""
    show(f"[bold]{escape(common.name_of(document))}[/bold]  [dim]{escape(source)}[/dim]\n")
    if not summary.sentences:
        show(escape(summary.text))
    for chosen in summary.sentences:
        located = _located(document, chosen)
        show(f"{escape(located.text)}\n  [dim]{escape(located.place)}[/dim]\n")
