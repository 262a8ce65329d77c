"""`foveate library`: what is in a library, and keeping it in order."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from . import common

if TYPE_CHECKING:
    from foveate.index import Index, LibraryDocument

app = typer.Typer(
    no_args_is_help=True,
    help="Show what is in a library built by `foveate index`, and maintain it.",
)
Folder = Annotated[
    Path, typer.Argument(metavar="DIR", help="The folder of the library.", show_default=False)
]
Names = Annotated[
    list[str],
    typer.Argument(
        metavar="NAME",
        help="Files, folders, or documents by the names that `foveate library list` shows.",
        show_default=False,
    ),
]


@app.command("list")
def list_documents(library: Folder, json: common.Json = False) -> None:
    """List the documents of a library.

    \b
    foveate library list papers.library
    foveate library list papers.library --json
    """
    index = common.open_library(library)
    documents = index.documents()
    if json:
        common.print_json([_as_json(document) for document in documents])
        return
    table = Table(box=None)
    common.add_titles(table, "title", reserved=72)
    table.add_column("sentences", justify="right")
    table.add_column("date", no_wrap=True)
    table.add_column("modified", no_wrap=True)
    table.add_column("document", overflow="fold")
    for one in documents:
        modified = f"{one.modified:%Y-%m-%d}"
        row = (one.title, f"{one.num_sentences:,}", one.date or "", modified, one.source)
        table.add_row(*map(Text, row))  # of which none is markup
    common.console.print(table)


@app.command("show")
def show(
    library: Folder,
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            help="A document, by the name that `foveate library list` shows. Default: the library.",
            show_default=False,
        ),
    ] = None,
    json: common.Json = False,
) -> None:
    """Show what a library consists of, or the outline of a document in it.

    \b
    foveate library show papers.library
    foveate library show papers.library papers/cod.pdf
    """
    index = common.open_library(library)
    if name is None:
        _show_library(index, json)
        return
    path = str(Path(name).absolute())
    found = [one for one in index.documents() if {one.source, one.file} & {name, path}]
    if not found:
        raise ValueError(
            f"the library {library} has nothing named {name}: "
            f"`foveate library list {library}` shows what it has"
        )
    if json:
        common.print_json([_as_json(one) for one in found])
        return
    for one in found:
        common.console.print(Text(one.title or one.source, "bold"))
        facts = (", ".join(one.authors), one.date, one.source)
        size = common.count(one.num_sentences, "sentence")
        common.console.print(" · ".join(filter(None, (*facts, size))) + "\n", markup=False)
        for titles, section in index.document(one.number).walk():
            indent = "  " * len(titles)
            title = section.title or "untitled"
            common.console.print(f"{indent}{title} ({section.num_sentences:,})", markup=False)


@app.command("remove")
def remove(library: Folder, names: Names) -> None:
    """Remove documents from a library; the files themselves stay.

    \b
    foveate library remove papers.library papers/cod.pdf papers/old
    """
    index = common.open_library(library)
    num_removed = index.remove(names)
    common.console.print(
        f"{library}: {common.count(num_removed, 'document')} removed", markup=False
    )


@app.command("export")
def export(
    library: Folder,
    target: Annotated[
        str,
        typer.Argument(
            metavar="TARGET",
            help="A Parquet file, or qdrant://HOST:PORT/COLLECTION.",
            show_default=False,
        ),
    ],
) -> None:
    """Copy all rows with their terms and vectors to another search engine.

    A collection of Qdrant is searched like a library. Only what has changed since
    the last time is sent.

    \b
    foveate library export papers.library papers.parquet
    foveate library export papers.library qdrant://localhost:6333/papers
    foveate search "who pays?" --library qdrant://localhost:6333/papers
    """
    num_rows = common.open_library(library).export(target)
    common.show_path(common.count(num_rows, "row"), target)


@app.command("compact")
def compact(library: Folder) -> None:
    """Merge small files, and free the space of removed documents.

    \b
    foveate library compact papers.library
    """
    index = common.open_library(library)
    before = index.size()
    index.compact()
    common.console.print(
        f"{library}: {before / 1e6:,.1f} MB before, {index.size() / 1e6:,.1f} MB now", markup=False
    )


def _show_library(index: "Index", json: bool) -> None:
    state = index.state
    sizes = {"documents": state.num_documents, "sentences": state.num_sentences}
    if json:
        model = {"name": state.model.name, "sha256": state.model.sha256}
        common.print_json({"model": model, **sizes, "bytes": index.size()})
        return
    table = Table(box=None, show_header=False)
    table.add_row("model", Text(state.model.name or "foveate's own"))
    for name, size in sizes.items():
        table.add_row(name, f"{size:,}")
    table.add_row("size", f"{index.size() / 1e6:,.1f} MB")
    common.console.print(table)


def _as_json(document: "LibraryDocument") -> dict[str, object]:
    times = {"modified": document.modified.isoformat(), "indexed": document.indexed.isoformat()}
    return asdict(document) | times
