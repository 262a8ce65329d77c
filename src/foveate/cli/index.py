"""`foveate index`."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from foveate.progress import progress

from . import common
from .reading import Reading, takes_reading_options


@takes_reading_options
def command(
    paths: Annotated[
        list[str],
        typer.Argument(
            metavar="PATH",
            help="Files, folders, and patterns in quotes such as 'papers/**/*.pdf'. Of folders, "
            "archives and mailboxes, everything is read. - stands for a list of paths on standard "
            "input, a line each.",
            show_default=False,
        ),
    ],
    library: Annotated[
        Path,
        typer.Option(
            "--library",
            "-l",
            metavar="DIR",
            help="The folder of the library. It is made if there is none.",
            show_default=False,
        ),
    ],
    prune: Annotated[
        bool,
        typer.Option("--prune", help="Remove files that are gone from the folders that are named."),
    ] = False,
    model: common.Model = None,
    device: common.Device = None,
    dtype: common.DType = None,
    json: common.Json = False,
    *,
    reading: Reading,
) -> None:
    """Add files to a library on disk, which can then be searched at once, again and again.

    \b
    foveate index papers/ --library papers.library
    foveate search "how are fish counted?" --library papers.library

    Do the same again to bring it up to date: files that have not changed are skipped, those that
    have are replaced, and with --prune those that are gone are removed. If it is interrupted, what
    was added until then can be searched, and the same command goes on.

    \b
    foveate index papers/ --library papers.library --prune
    foveate index 'reports/**/*.pdf' minutes.docx --library work.library
    find . -name '*.md' | foveate index - --library notes.library
    """
    named = _with_lists(paths)
    options = reading.options()
    index = common.open_library(library, model, device, dtype)
    from foveate.index.sources import find_sources

    def note(name: str, error: Exception) -> None:
        reading.failures.append(error if name in str(error) else ValueError(f"{name}: {error}"))

    with progress("Counting files", None):
        total = sum(1 for _ in find_sources(named, lambda *failure: None, is_count=True))
    with progress("Indexing", total, unit="files") as advance:
        on_error = None if reading.strict else note
        changes = index.add(named, prune=prune, on_error=on_error, on_file=advance, **options)
    if not (total or changes.removed or reading.failures):
        raise ValueError(f"there is no file in a format that can be read in {', '.join(named)}")
    if json:
        common.print_json(
            {
                "library": str(library),
                "added": changes.added,
                "updated": changes.updated,
                "unchanged": changes.unchanged,
                "removed": changes.removed,
                "failed": len(changes.failures),
                "documents": changes.num_documents,
                "sentences": changes.num_sentences,
            }
        )
        return
    counts = (
        (changes.added, "added"),
        (changes.updated, "updated"),
        (changes.unchanged, "unchanged"),
        (changes.removed, "removed"),
    )
    files = ", ".join(f"{count:,} {word}" for count, word in counts if count) or "nothing added"
    state = index.state
    common.console.print(
        f"{library}: {files}; {common.count(state.num_documents, 'document')}, "
        f"{common.count(state.num_sentences, 'sentence')}",
        markup=False,
    )


def _with_lists(paths: list[str]) -> list[str]:
    """Return the paths with those on standard input in place of -."""
    if paths.count("-") > 1:
        raise ValueError("- stands for standard input, which can be read only once")
    if "-" not in paths:
        return paths
    listed = [line for line in sys.stdin.read().splitlines() if line.strip()]
    if not listed and len(paths) == 1:
        raise ValueError("standard input lists no paths: give one a line")
    place = paths.index("-")
    return [*paths[:place], *listed, *paths[place + 1 :]]
