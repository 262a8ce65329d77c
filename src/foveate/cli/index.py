"""`foveate index`."""

from contextlib import nullcontext, redirect_stdout
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from foveate.progress import progress

from . import common
from .reading import ReadingOptions, named_error, say_skipped, standard_input, takes_options

if TYPE_CHECKING:
    from foveate.index import Changes
    from foveate.index.ray import RayCluster
    from foveate.index.state import State

_PANEL = "Cluster"


@takes_options
def command(
    paths: Annotated[
        list[str],
        typer.Argument(
            metavar="PATH",
            help="Files, folders, and patterns in quotes such as 'papers/**/*.pdf'. Folders, "
            "archives and mailboxes are read completely. - stands for a list of paths on standard "
            "input, one per line.",
            show_default=False,
        ),
    ],
    library: Annotated[
        Path,
        typer.Option(
            "--library",
            "-l",
            metavar="DIR",
            help="The folder of the library, or its URL in an object store (s3://…, gs://…, "
            "az://…), which is created if it does not exist.",
            show_default=False,
        ),
    ],
    prune: Annotated[
        bool,
        typer.Option(
            "--prune", help="Remove from the library what no longer exists in the folders named."
        ),
    ] = False,
    engine: Annotated[
        str | None,
        typer.Option(
            "--engine",
            metavar="NAME",
            help="What reads and encodes the files: ray, a cluster. Default: this process.",
            show_default=False,
            rich_help_panel=_PANEL,
        ),
    ] = None,
    address: Annotated[
        str | None,
        typer.Option(
            "--address",
            metavar="ADDRESS",
            help="Address of the cluster, such as head:6379. Default: the one in RAY_ADDRESS, or "
            "the one that this machine is part of, or one that is started on this machine.",
            show_default=False,
            rich_help_panel=_PANEL,
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Number of processes that read and encode. Default: as many as fit.",
            show_default=False,
            rich_help_panel=_PANEL,
        ),
    ] = None,
    cpus_per_worker: Annotated[
        float | None,
        typer.Option(
            metavar="N",
            help="CPUs per worker, and its number of threads. Default: 1.",
            show_default=False,
            rich_help_panel=_PANEL,
        ),
    ] = None,
    gpus_per_worker: Annotated[
        float | None,
        typer.Option(
            metavar="N",
            help="GPUs per worker; with 0.25, four workers share a GPU. Default: 0.",
            show_default=False,
            rich_help_panel=_PANEL,
        ),
    ] = None,
    model: common.LibraryModel = None,
    json: common.Json = False,
    *,
    loading: common.Loading,
    reading: ReadingOptions,
) -> None:
    """Add files to a library on disk, which can then be searched instantly.

    \b
    foveate index papers/ --library papers.library
    foveate search "how are fish counted?" --library papers.library

    Run the same command again to bring the library up to date: files that have
    not changed are skipped, those that have are replaced, and with --prune,
    those that no longer exist are removed. After an interruption, what was added
    so far can be searched, and the same command continues.

    \b
    foveate index papers/ --library papers.library --prune
    foveate index 'reports/**/*.pdf' minutes.docx --library work.library
    find . -name '*.md' | foveate index - --library notes.library

    A Ray cluster builds the same library faster. All of its machines need
    foveate, and the files at the same paths.

    \b
    foveate index /papers -l papers.library --engine ray --address head:6379
    foveate index /papers -l papers.library --engine ray --gpus-per-worker 0.5
    """
    cluster = _cluster(
        engine,
        loading.device,
        address=address,
        workers=workers,
        cpus_per_worker=cpus_per_worker,
        gpus_per_worker=gpus_per_worker,
    )
    named = _with_lists(paths)
    options = reading.options()
    common.silence()
    from foveate.index import Index
    from foveate.index.sources import find_sources

    if cluster:
        loading = replace(loading, device="cpu")
    index = Index.create(library, exist_ok=True, model=model, **loading.options())

    def note(name: str, error: Exception) -> None:
        reading.failures.append(named_error(name, error))

    with progress("Counting files", None):
        paths_found = {source.path for source in find_sources(named, note)}
        total = sum(path.stat().st_size for path in paths_found)
    if not (paths_found or prune):  # before a library is made of nothing
        nothing = f"there is no file in a format that can be read in {', '.join(named)}"
        raise reading.failures.pop() if reading.failures else ValueError(nothing)
    reading.failures.clear()  # which are found again
    on_error = None if reading.strict else note
    quiet = redirect_stdout(StringIO()) if cluster else nullcontext()  # Ray prints messages there
    with quiet, progress("Indexing", total, in_bytes=True) as advance:
        changes = index.add(
            named,
            prune=prune,
            on_error=on_error,
            on_file=advance,
            cluster=cluster,
            **options,
        )
    say_skipped(changes.skipped)
    if json:
        common.print_json(_as_json(index.path, changes))
    else:
        _show(index.path, changes, index.state)


def _as_json(library: "str | Path", changes: "Changes") -> dict[str, Any]:
    """Return what was done to a library."""
    return {
        "library": str(library),
        "added": changes.added,
        "updated": changes.updated,
        "unchanged": changes.unchanged,
        "removed": changes.removed,
        "failed": len(changes.failures),
        "skipped": changes.skipped,
        "documents": changes.num_documents,
        "sentences": changes.num_sentences,
    }


def _show(library: "str | Path", changes: "Changes", state: "State") -> None:
    """Print how many files were added or the like, and how much the library holds now."""
    counts = (
        (changes.added, "added"),
        (changes.updated, "updated"),
        (changes.unchanged, "unchanged"),
        (changes.removed, "removed"),
    )
    files = ", ".join(f"{count:,} {word}" for count, word in counts if count) or "nothing added"
    common.console.print(
        f"{library}: {files}; {common.count(state.num_documents, 'document')}, "
        f"{common.count(state.num_sentences, 'sentence')}",
        markup=False,
    )


def _cluster(engine: str | None, device: str | None, **options: Any) -> "RayCluster | None":
    """Return the cluster that the options name, if any."""
    given = {name: value for name, value in options.items() if value is not None}
    if engine is None:
        if given:
            raise ValueError(f"--{next(iter(given)).replace('_', '-')} goes with --engine ray")
        return None
    if engine != "ray":
        raise ValueError(f"there is no engine {engine}: name ray, or leave --engine out")
    if device is not None:
        raise ValueError(
            "--device does not go with --engine ray: --gpus-per-worker says where workers run"
        )
    from foveate.index.ray import RayCluster

    return RayCluster(given.pop("address", None), **given)


def _with_lists(paths: list[str]) -> list[str]:
    """Return the paths with those on standard input in place of -."""
    if paths.count("-") > 1:
        raise ValueError("- stands for standard input, which can be read only once")
    if "-" not in paths:
        return paths
    listed = [line for line in standard_input().read().splitlines() if line.strip()]
    if not listed and len(paths) == 1:
        raise ValueError("standard input lists no paths: give one per line")
    place = paths.index("-")
    return [*paths[:place], *listed, *paths[place + 1 :]]
