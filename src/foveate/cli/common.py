"""What the commands share: arguments, reading inputs, loading models, printing."""

import json
import logging
import shlex
import sys
from dataclasses import asdict
from pathlib import Path
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

Model = Annotated[
    str | None,
    typer.Option(
        metavar="PATH",
        help="Encoder checkpoint, a folder or a name on the hub. Default: all-MiniLM-L6-v2, which "
        "is installed with foveate.",
        show_default=False,
    ),
]
Device = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Where the model runs: cpu, cuda, cuda:1 … Default: the GPU, if there is one.",
        show_default=False,
    ),
]
DType = Annotated[
    str | None,
    typer.Option(
        "--dtype",
        metavar="NAME",
        help="Precision of the model: float32, bfloat16 or float16. bfloat16 is twice as fast on "
        "processors that support it.",
        show_default=False,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


def place(span: Span) -> str:
    """Describe where a span is: who speaks, in which section, on which page or line."""
    section = " › ".join(title for title in span.path if title)
    return ", ".join(filter(None, (span.speaker, section, span.place)))


def as_json(span: Span, score: float) -> dict[str, Any]:
    """Return the fields of a span and its score."""
    boxes = [box._asdict() for box in span.boxes]
    return {**asdict(span), "boxes": boxes, "score": round(score, 4)}


def show_result(documents: list[Document], result: "Hit | Passage") -> None:
    """Print a result with its score and, below it, its place."""
    where = place(result.span)
    if len(documents) > 1:
        where = f"{result.span.document}: {where}"
    console.print(
        f"[bold]{result.score:.2f}[/bold]  {escape(result.span.text)}\n"
        f"      [dim]{escape(where)}[/dim]\n"
    )


def check_order(command: str, kind: str, query: str, files: list[str]) -> None:
    """Check that a query was not given after the files.

    Args:
        command: The command, such as "foveate search".
        kind: What the query is called: "query" or "question".
        query: The first argument.
        files: The other arguments.

    Raises:
        ValueError: The first argument is a file and the last one is not.
    """
    if Path(query).is_file() and files[-1] != "-" and not Path(files[-1]).exists():
        corrected = [files[-1], query, *files[:-1]]
        raise ValueError(f"the {kind} comes first: {command} {shlex.join(corrected)}")


def load_encoder(model: str | None, device: str | None, dtype: str | None) -> "Encoder":
    """Load an encoder."""
    quiet()
    from foveate.inference import Encoder

    return Encoder.from_pretrained(model, device=device, dtype=dtype)


def load_encoder_or(
    writer: "type[Writer]", model: str | None, device: str | None, dtype: str | None, **options: Any
) -> "Encoder | Writer":
    """Load an encoder or, from an encoder-decoder's checkpoint, a model that writes text."""
    quiet()
    if model is not None:
        from foveate.models.loading import load_config

        if load_config(model).is_encoder_decoder:
            loaded: Writer = writer.from_pretrained(model, device=device, dtype=dtype, **options)
            return loaded
    return load_encoder(model, device, dtype)


def quiet() -> None:
    """Turn off the progress bars and log messages of transformers and the hub."""
    from transformers.utils import logging as transformers_logging

    transformers_logging.disable_progress_bar()
    transformers_logging.set_verbosity_error()
    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)


def name_of(document: Document) -> str:
    """Name a document by its title or, if it has none, its source."""
    return document.title or document.source or "Untitled"


def add_titles(table: Table, heading: str, reserved: int) -> None:
    """Add a column of titles, which are shortened to leave room for the other columns.

    Args:
        table: A table without columns yet.
        heading: Heading of the column.
        reserved: Width of the other columns in characters.
    """
    max_width = max(20, console.width - reserved)
    table.add_column(heading, no_wrap=True, overflow="ellipsis", max_width=max_width)


def print_json(value: Any) -> None:
    """Print JSON to standard output."""
    sys.stdout.write(json.dumps(value, ensure_ascii=False, indent=2) + "\n")
