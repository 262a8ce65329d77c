"""`foveate index`."""

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext, redirect_stdout, suppress
from dataclasses import replace
from functools import partial
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from foveate.progress import progress

from . import common
from .interrupts import EXIT_CODE
from .reading import ReadingOptions, named_error, say_skipped, standard_input, takes_options

if TYPE_CHECKING:
    from foveate.index import Changes, Index
    from foveate.index.ray import RayCluster
    from foveate.index.state import State

_PANEL = "Cluster"

_STEP = 200
"""Milliseconds within which changes are taken to be one."""


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
    watch: Annotated[
        bool,
        typer.Option(
            "--watch",
            help="Go on until Ctrl-C, and bring the library up to date whenever files in the "
            "folders change. Files that are gone are removed, as with --prune.",
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
    so far can be searched, and the same command continues. With --watch, the
    library is kept up to date while files change.

    \b
    foveate index papers/ --library papers.library --prune
    foveate index papers/ --library papers.library --watch
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
    if watch and (others := [path for path in named if not Path(path).is_dir()]):
        raise ValueError(f"--watch goes with folders, and {others[0]} is none: name its folder")
    options = reading.options()
    common.silence()
    from foveate.index import Changes, Index

    if cluster:
        loading = replace(loading, device="cpu")
    index = Index.create(library, exist_ok=True, model=model, **loading.options())
    add = partial(_add, index, named, prune=prune or watch, cluster=cluster, **options)
    report = partial(_report, index, json=json)
    if watch:
        _keep_current(add, report, _changes_in(named, library), strict=reading.strict)

    def note(name: str, error: Exception) -> None:
        reading.failures.append(named_error(name, error))

    changes = add(on_error=None if reading.strict else note)
    if changes == Changes(failures=changes.failures) and not prune:
        nothing = f"there is no file in a format that can be read in {', '.join(named)}"
        raise reading.failures.pop() if reading.failures else ValueError(nothing)
    say_skipped(changes.skipped)
    report(changes)


def _add(
    index: "Index", paths: list[str], *, cluster: "RayCluster | None", **options: Any
) -> "Changes":
    """Bring a library up to date, showing how many files are done."""
    quiet = redirect_stdout(StringIO()) if cluster else nullcontext()  # Ray prints messages there
    with quiet, progress("Indexing", None) as advance:
        shown = 0

        def show(done: int, total: int, documents: int) -> None:
            nonlocal shown
            added = common.count(documents, "document")
            advance(done - shown, total=total, note=f"{done:,} of {total:,} files: {added}")
            shown = done

        return index.add(paths, cluster=cluster, on_file=show, **options)


def _keep_current(
    add: Callable[..., "Changes"],
    report: Callable[["Changes"], None],
    occasions: Iterable[None],
    *,
    strict: bool,
) -> NoReturn:
    """Bring a library up to date on each occasion, and say what was done, until Ctrl-C.

    Args:
        add: Does it, see `_add`.
        report: Says what was done.
        occasions: See `_changes_in`.
        strict: Whether to stop at the first file that cannot be read.
    """
    said: set[str] = set()

    def say(name: str, error: Exception) -> None:
        message = str(named_error(name, error))
        # A file that an editor had for a moment is no failure; another is tried again, but said
        # only once.
        has_gone = isinstance(error, FileNotFoundError) and error.filename is not None
        if not has_gone and message not in said:
            print(f"foveate: {message}", file=sys.stderr)
            said.add(message)

    is_first = True
    for _ in occasions:
        changes = add(on_error=None if strict else say)
        if is_first:
            say_skipped(changes.skipped)
        if is_first or changes.added or changes.updated or changes.removed:
            report(changes)
            sys.stdout.flush()
        is_first = False
    raise typer.Exit(EXIT_CODE)


def _changes_in(folders: list[str], library: Path) -> Iterator[None]:
    """Yield at the beginning, and whenever files in folders have changed, until Ctrl-C.

    Changes that follow each other at once are one, as are those that happen meanwhile. Hidden files
    and the library itself do not count.
    """
    try:
        from watchfiles import watch
    except ImportError as error:
        raise ImportError("--watch needs watchfiles: run `pip install 'foveate[index]'`") from error
    place = library.resolve()

    def counts(_: object, path: str) -> bool:
        changed = Path(path).resolve()
        return not (changed.name.startswith(".") or changed.is_relative_to(place))

    options: dict[str, Any] = {"step": _STEP, "rust_timeout": _STEP, "yield_on_timeout": True}
    is_first = True
    with suppress(KeyboardInterrupt):
        # It times out when it has begun to watch: what changes while files are read is seen.
        for changed in watch(*folders, watch_filter=counts, **options):
            if changed or is_first:
                yield
            is_first = False


def _report(index: "Index", changes: "Changes", *, json: bool) -> None:
    """Print what was done to a library."""
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
