"""What the commands share: arguments, reading inputs, loading models, printing."""

import json
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from foveate.documents import Document, Span

if TYPE_CHECKING:
    from foveate.inference import Answerer, Encoder, Summarizer
    from foveate.tasks.ask import Passage
    from foveate.tasks.search import Hit

Writer = TypeVar("Writer", "Answerer", "Summarizer")

console = Console(highlight=False, soft_wrap=True, emoji=False)

_READ = (
    "Text, Markdown, reStructuredText, HTML, JATS, TEI, transcript, PDF or DOCX, gzipped or not; "
    "- is standard input."
)
Files = Annotated[list[str], typer.Argument(metavar="FILE...", help=_READ, show_default=False)]
File = Annotated[str, typer.Argument(metavar="FILE", help=_READ, show_default=False)]
Format = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="NAME",
        help="text, markdown, rst, html, jats, tei, transcript, json, pdf or docx; "
        "by default recognized by the file's suffix.",
        show_default=False,
    ),
]
Language = Annotated[
    str,
    typer.Option(
        metavar="CODE", help="Language of the text (en, de, fr …), for finding sentences."
    ),
]
Model = Annotated[
    str | None,
    typer.Option(
        metavar="PATH",
        help="Encoder checkpoint: a folder, or a name on the hub. Default: all-MiniLM-L6-v2, which "
        "is installed with foveate.",
        show_default=False,
    ),
]
Device = Annotated[
    str | None,
    typer.Option(help="cpu, cuda, cuda:1 …; default: the GPU if any.", show_default=False),
]
DType = Annotated[
    str | None,
    typer.Option(
        "--dtype",
        help="float32, bfloat16 or float16: bfloat16 is twice as fast on processors that have it.",
        show_default=False,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]


def place(document: Document, span: Span) -> str:
    """Say who speaks, in which section, and on which page or line."""
    section = " › ".join(title for title in span.path if title)
    line = f"line {document.line_of(span.start)}" if span.page is None else f"page {span.page}"
    return ", ".join(filter(None, (span.speaker, section, line)))


def place_among(documents: list[Document], found: "Hit | Passage") -> str:
    """Say the place of a result, with its document's name if there are several."""
    where = place(documents[found.document_idx], found.span)
    return f"{found.span.document}: {where}" if len(documents) > 1 else where


def as_json(document: Document, span: Span, score: float) -> dict[str, Any]:
    """A result for machines: its span, line and score."""
    line = document.line_of(span.start)
    return {**asdict(span), "line": line, "score": round(score, 4)}


def show_result(span: Span, score: float, where: str) -> None:
    """Print a result with its score, and its place below."""
    console.print(
        f"[bold]{score:.2f}[/bold]  {escape(span.text)}\n      [dim]{escape(where)}[/dim]\n"
    )


def read(files: list[str], format: str | None, language: str) -> list[Document]:
    """Read documents, `-` from standard input."""
    if files.count("-") > 1:
        raise ValueError("- is standard input, which can be read only once")
    return [
        Document.from_bytes(
            sys.stdin.buffer.read(), format=format, source="standard input", language=language
        )
        if file == "-"
        else Document.from_file(file, format=format, language=language)
        for file in files
    ]


def encoder(model: str | None, device: str | None, dtype: str | None) -> "Encoder":
    """Load an encoder."""
    quiet()
    from foveate.inference import Encoder

    return Encoder.from_pretrained(model, device=device, dtype=dtype)


def encoder_or(
    writer: "type[Writer]", model: str | None, device: str | None, dtype: str | None, **options: Any
) -> "Encoder | Writer":
    """Load the model that is named: one that writes or, by default, an encoder."""
    quiet()
    if model is not None:
        from foveate.models.loading import load_config

        if load_config(model).is_encoder_decoder:
            loaded: Writer = writer.from_pretrained(model, device=device, dtype=dtype, **options)
            return loaded
    return encoder(model, device, dtype)


def quiet() -> None:
    """Turn off transformers' progress bars and log messages; its errors are still raised."""
    from transformers.utils import logging

    logging.disable_progress_bar()
    logging.set_verbosity_error()


def name_of(document: Document) -> str:
    """Name a document by its title or, if it has none, its source."""
    return document.title or document.source or "Untitled"


def add_titles(table: Table, heading: str, beside: int) -> None:
    """Add a column of titles, shortened to leave room for the columns beside it.

    Args:
        table: A table without columns yet.
        heading: Heading of the column.
        beside: Characters that the other columns take.
    """
    room = max(20, console.width - beside)
    table.add_column(heading, no_wrap=True, overflow="ellipsis", max_width=room)


def print_json(value: Any) -> None:
    """Print JSON to standard output."""
    sys.stdout.write(json.dumps(value, ensure_ascii=False, indent=2) + "\n")
