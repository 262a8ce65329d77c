"""`foveate index`."""

from contextlib import nullcontext, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from foveate.progress import progress
from foveate.tasks.parameters import parameter

from . import common
from .command import JSON
from .models import ENCODER, OF_LIBRARY, LoadingOptions, checkpoint
from .reading import FormatOptions, named_error, say_skipped, standard_input

if TYPE_CHECKING:
    from foveate.index import Changes
    from foveate.index.ray import RayCluster
    from foveate.index.state import State

_PANEL = "Cluster"


@dataclass(kw_only=True)
class IndexCommand(FormatOptions, LoadingOptions):
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

    paths: list[str] = parameter(
        "Files, folders, and patterns in quotes such as 'papers/**/*.pdf'. Folders, archives and "
        "mailboxes are read completely. - stands for a list of paths on standard input, one per "
        "line.",
        metavar="PATH",
        is_argument=True,
    )
    library: Path = parameter(
        "The folder of the library, or its URL in an object store (s3://…, gs://…, az://…), which "
        "is created if it does not exist.",
        short="-l",
        metavar="DIR",
    )
    prune: bool = parameter(
        "Remove from the library what no longer exists in the folders named.", False
    )
    model: str | None = checkpoint(f"{ENCODER}{OF_LIBRARY}")
    json: bool = parameter(JSON, False)
    engine: str | None = parameter(
        "What reads and encodes the files: ray, a cluster. Default: this process.",
        None,
        metavar="NAME",
        panel=_PANEL,
    )
    address: str | None = parameter(
        "Address of the cluster, such as head:6379. Default: the one in RAY_ADDRESS, or the one "
        "that this machine is part of, or one that is started on this machine.",
        None,
        metavar="ADDRESS",
        panel=_PANEL,
    )
    workers: int | None = parameter(
        "Number of processes that read and encode. Default: as many as fit.",
        None,
        metavar="N",
        panel=_PANEL,
    )
    cpus_per_worker: float | None = parameter(
        "CPUs per worker, and its number of threads. Default: 1.", None, metavar="N", panel=_PANEL
    )
    gpus_per_worker: float | None = parameter(
        "GPUs per worker; with 0.25, four workers share a GPU. Default: 0.",
        None,
        metavar="N",
        panel=_PANEL,
    )

    def __call__(self) -> None:
        cluster = self._cluster()
        named = _with_lists(self.paths)
        options = self.reading()
        common.silence()
        from foveate.index import Index
        from foveate.index.sources import find_sources

        if cluster:
            self.device = "cpu"
        index = Index.create(self.library, exist_ok=True, model=self.model, **self.loading())

        def note(name: str, error: Exception) -> None:
            self.failures.append(named_error(name, error))

        with progress("Counting files", None):
            paths_found = {source.path for source in find_sources(named, note)}
            total = sum(path.stat().st_size for path in paths_found)
        if not (paths_found or self.prune):  # before a library is made of nothing
            nothing = f"there is no file in a format that can be read in {', '.join(named)}"
            raise self.failures.pop() if self.failures else ValueError(nothing)
        self.failures.clear()  # which are found again
        on_error = None if self.strict else note
        # Ray prints messages there.
        quiet = redirect_stdout(StringIO()) if cluster else nullcontext()
        with quiet, progress("Indexing", total, in_bytes=True) as advance:
            changes = index.add(
                named,
                prune=self.prune,
                on_error=on_error,
                on_file=advance,
                cluster=cluster,
                **options,
            )
        say_skipped(changes.skipped)
        if self.json:
            common.print_json(_as_json(index.path, changes))
        else:
            _show(index.path, changes, index.state)

    def _cluster(self) -> "RayCluster | None":
        """Return the cluster that the options name, if any."""
        names = ("address", "workers", "cpus_per_worker", "gpus_per_worker")
        given = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        if self.engine is None:
            if given:
                raise ValueError(f"--{next(iter(given)).replace('_', '-')} goes with --engine ray")
            return None
        if self.engine != "ray":
            raise ValueError(f"there is no engine {self.engine}: name ray, or leave --engine out")
        if self.device is not None:
            raise ValueError(
                "--device does not go with --engine ray: --gpus-per-worker says where workers run"
            )
        from foveate.index.ray import RayCluster

        return RayCluster(given.pop("address", None), **given)


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
