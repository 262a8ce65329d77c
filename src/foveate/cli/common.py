"""Printing results, and what else the commands share."""

import json
import logging
import os
import shlex
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from foveate.documents import Span
from foveate.documents.structure import format_path
from foveate.tasks import arguments
from foveate.tasks.hits import format_matches

from .command import JSON

if TYPE_CHECKING:
    from foveate.index import Index
    from foveate.tasks.hits import Hit, NearbySentence

_UNLIMITED = 10_000
"""Width of what is not printed on a terminal: nothing is wrapped or cut there."""

_is_terminal = sys.stdout is not None and sys.stdout.isatty()
console = Console(
    highlight=False, soft_wrap=True, emoji=False, width=None if _is_terminal else _UNLIMITED
)
Json = Annotated[bool, typer.Option("--json", help=JSON)]


def place(span: Span) -> str:
    """Describe where a span is: who speaks, on which page or line, in which section."""
    return " · ".join(filter(None, (span.speaker, span.place, format_path(span.path))))


def span_as_json(span: Span) -> dict[str, Any]:
    """Return the fields of a span."""
    return {**asdict(span), "boxes": [box._asdict() for box in span.boxes]}


def hits_as_json(hits: "Iterable[Hit]") -> list[dict[str, Any]]:
    """Return the fields of each hit: its place, best sentence, score, language and context."""
    return [
        {
            **span_as_json(hit.span),
            "best": span_as_json(hit.best),
            "score": round(hit.score, 4),
            "likely": hit.likely,
            "copies": list(hit.copies),
            "matches": [asdict(one) for one in hit.matches],
            "language": hit.language,
            "before": hit.before,
            "after": hit.after,
        }
        for hit in hits
    ]


def show_hits(hits: "Sequence[Hit]", num_documents: int | None) -> None:
    """Print hits with their scores, the sentences around them and, below, their places.

    The words that match are below the place. Documents are named if there may be several.

    Args:
        hits: The hits.
        num_documents: Number of documents that were searched; None for a library.
    """
    if not hits:
        console.print("nothing found")
    elif all(hit.likely is False for hit in hits):
        searched = {None: "this library", 1: "this document"}.get(num_documents, "these documents")
        console.print(f"probably not in {searched}\n")
    for hit in hits:
        where = [] if num_documents == 1 else [hit.span.document]
        where.append(place(hit.span) if hit.span.path else hit.span.text)
        where += [f"also in {name}" for name in hit.copies]
        lines = [" · ".join(filter(None, where)), format_matches(hit.matches)]
        show_sentences(hit.sentences, "\n".join(filter(None, lines)), f"{hit.score:.2f}")


def show_sentences(near: "Sequence[NearbySentence]", where: str, score: str = "") -> None:
    """Print sentences, with those of the result marked if there are others, and their place.

    On a terminal, the result is bold and the rest dim, and lines are wrapped. Elsewhere, asterisks
    enclose the result, as in Markdown.
    """
    is_styled = console.is_terminal and not console.is_dumb_terminal
    asterisks = "" if is_styled else "**"
    has_marks = len({one.is_marked for one in near}) > 1
    has_speakers = len({one.span.speaker for one in near}) > 1
    text = Text()
    for before, one, after in zip([None, *near], near, [*near[1:], None], strict=False):
        text.append(one.separator if before else "")
        if has_speakers and one.span.speaker and (before is None or one.separator == "\n"):
            text.append(f"{one.span.speaker}: ", "dim")
        is_marked = has_marks and one.is_marked
        opens = is_marked and not (before and before.is_marked)
        closes = is_marked and not (after and after.is_marked)
        style = ("bold" if one.is_marked else "dim") if has_marks else ""
        text.append(f"{asterisks * opens}{one.span.text}{asterisks * closes}", style)
    indent = " " * (len(score) + 2)  # of the place; without a score, the text has none
    if is_styled:
        columns = Table.grid(padding=(0, 2, 0, 0))
        columns.add_row(Text(score, "bold"), text)
        console.print(columns, Padding(Text(where, "dim"), (0, 0, 1, len(indent))), soft_wrap=False)
    else:
        lines = text.plain.replace("\n", f"\n{indent if score else ''}")
        below = where.replace("\n", f"\n{indent}")
        console.print(f"{score}{'  ' if score else ''}{lines}\n{indent}{below}\n", markup=False)


def check_query(command: str, kind: str, query: str, files: Sequence[str] | None) -> None:
    """Check that a query is not blank, and was not given after the files.

    Args:
        command: The command, such as "foveate search".
        kind: What the query is called: "query" or "question".
        query: The first argument.
        files: The other arguments.

    Raises:
        ValueError: The query is blank, or it is a file and the last of the others is not.
    """
    arguments.check_query(query)
    if files and Path(query).is_file() and files[-1] != "-" and not Path(files[-1]).exists():
        corrected = [files[-1], query, *files[:-1]]
        raise ValueError(f"the {kind} comes first: {command} {shlex.join(corrected)}")


def count(number: int, noun: str) -> str:
    """Format a count of things.

    Example:
        >>> count(1, "document"), count(2000, "sentence")
        ('1 document', '2,000 sentences')
    """
    return f"{number:,} {noun if number == 1 else f'{noun}s'}"


def show_path(kind: str, path: str | Path) -> None:
    """Say what was written where."""
    console.print(f"{kind}: {path}", markup=False)


def open_library(library: Path, **options: Any) -> "Index":
    """Open a library with options of `Index.open`."""
    silence()
    from foveate.index import Index

    return Index.open(library, **options)


def silence() -> None:
    """Turn off messages of transformers and the hub, without importing them."""
    os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"
    os.environ["HF_HUB_VERBOSITY"] = os.environ["TRANSFORMERS_VERBOSITY"] = "error"
    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)
    if "transformers" in sys.modules:  # it has read the environment already
        from transformers.utils import logging as transformers_logging

        transformers_logging.disable_progress_bar()
        transformers_logging.set_verbosity_error()


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
