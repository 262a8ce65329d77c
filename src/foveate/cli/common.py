"""What the commands share: arguments, reading inputs, loading encoders, printing."""

import json
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from foveate.documents import Document, Sentence

if TYPE_CHECKING:
    from foveate.inference.encoder import Encoder

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
        "by default told by the file's suffix.",
        show_default=False,
    ),
]
Language = Annotated[
    str,
    typer.Option(
        metavar="CODE", help="Of the text: en, de, fr …, whose rules say where a sentence ends."
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


@dataclass(frozen=True)
class Located:
    """A sentence as shown: its words, who says them, its section, its line in the source."""

    text: str
    speaker: str | None
    section: str
    line: int
    start: int
    end: int

    @classmethod
    def of(
        cls, document: Document, sentence: Sentence, path: tuple[str, ...], speaker: str | None
    ) -> "Located":
        """Locate a sentence of a document."""
        line = document.text.count("\n", 0, sentence.start) + 1
        section = " › ".join(title for title in path if title)
        return cls(sentence.text, speaker, section, line, sentence.start, sentence.end)

    @property
    def place(self) -> str:
        """Speaker, section and line in words."""
        return ", ".join(filter(None, (self.speaker, self.section, f"line {self.line}")))


def read(files: list[str], format: str | None, language: str) -> list[Document]:
    """Read documents, `-` from standard input."""
    if files.count("-") > 1:
        raise ValueError("- stands for standard input, which can be read only once")
    return [
        Document.from_bytes(
            sys.stdin.buffer.read(), format=format, source="standard input", language=language
        )
        if file == "-"
        else Document.from_file(file, format=format, language=language)
        for file in files
    ]


def encoder(model: str | None, device: str | None, dtype: str | None) -> "Encoder":
    """Load an encoder without the noise that libraries make."""
    quiet()
    from foveate.inference.encoder import Encoder

    return Encoder.from_pretrained(model, device=device, dtype=dtype)


def quiet() -> None:
    """Keep transformers' bars and remarks off the screen; its errors still are raised."""
    from transformers.utils import logging

    logging.disable_progress_bar()
    logging.set_verbosity_error()


def name_of(document: Document) -> str:
    """What a document is called: by its title or, where it has none, its source."""
    return document.title or document.source or "Untitled"


def add_titles(table: Table, heading: str, beside: int) -> None:
    """Add a column of titles, cut where they would push out what stands beside them.

    Args:
        table: without columns yet.
        heading: of the column.
        beside: letters that the columns to come take.
    """
    room = max(20, console.width - beside)
    table.add_column(heading, no_wrap=True, overflow="ellipsis", max_width=room)


def print_json(value: Any) -> None:
    """Print JSON to standard output."""
    sys.stdout.write(json.dumps(value, ensure_ascii=False, indent=2) + "\n")
