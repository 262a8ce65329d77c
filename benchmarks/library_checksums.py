"""What checksums add to the building of a library, and what it takes to check its files.

    python benchmarks/library_checksums.py --documents 30 --sizes 100000

Proposals, PEPs and papers of `../shared/data` are written as files, one each, and added to a
library; `indexing` includes reading and encoding them, and `of_checksums` is the part of it in
which files are hashed. Libraries of the given numbers of sentences are made of that one by noisy
copies, as in `library.py`: there `indexing` is writing alone.

`verify` is the time of `Index.verify`, and `hashing` the part of it in which all files are hashed.
`opening` is the time to check, before a search, those files that are always hashed and the sizes of
the others, `reading_state` that to read `library.json`. Each is the median of several times. The
files are in the system's cache.
"""

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import report
from foveate import Index
from foveate.index import store
from foveate.index.store import Store
from library import enlarge, write_files

REPETITIONS = 7


@contextmanager
def hashing() -> Iterator[list[float]]:
    """Measure the seconds of each commit in which files are hashed."""
    seconds: list[float] = []
    checksums = store.checksums

    def timed(*arguments: Any) -> Any:
        begun = time.perf_counter()
        result = checksums(*arguments)
        seconds.append(time.perf_counter() - begun)
        return result

    store.checksums = timed
    try:
        yield seconds
    finally:
        store.checksums = checksums


def seconds_of(function: Callable[[], object], repetitions: int = REPETITIONS) -> float:
    """Return the median time of a function."""
    times = []
    for _ in range(repetitions):
        begun = time.perf_counter()
        function()
        times.append(time.perf_counter() - begun)
    return median(times)


def measure(build: Callable[[], Index]) -> dict[str, Any]:
    """Build a library and check it."""
    with hashing() as seconds:
        begun = time.perf_counter()
        index = build()
        indexing = time.perf_counter() - begun
    kept, state = Store(index.path), index.state
    begun = time.perf_counter()
    assert index.verify() == []
    verify = time.perf_counter() - begun
    return {
        "documents": state.num_documents,
        "sentences": state.num_sentences,
        "files": len(state.files),
        "bytes": sum(one.size for one in state.files.values()),
        "bytes_of_state": (index.path / "library.json").stat().st_size,
        "indexing": indexing,
        "commits": len(seconds),
        "of_checksums": sum(seconds),
        "verify": verify,
        "hashing": seconds_of(partial(kept.find_damage, state)),
        "opening": seconds_of(partial(kept.find_damage, state, is_thorough=False)),
        "reading_state": seconds_of(kept.read_state, 100),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=30)
    parser.add_argument("--sizes", type=int, nargs="*", default=[100_000])
    parser.add_argument("--noise", type=float, default=0.2)
    parser.add_argument("--data", type=Path, default=report.DATA)
    parser.add_argument("--output", type=Path, default=report.RESULTS / "library-checksums.json")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        files = folder / "files"
        files.mkdir()
        write_files(files, options.data, options.documents)
        base = Index.create(folder / "base", device="cpu")
        base.encoder  # noqa: B018 (loads the model)

        def add() -> Index:
            base.add(files)
            return base

        copies = (
            partial(enlarge, base, folder / str(size), size, options.noise)
            for size in options.sizes
        )
        results = []
        for build in (add, *copies):
            results.append(measure(build))
            report.save(options.output, results, "lancedb")
    print(report.table(list(results[0]), [list(one.values()) for one in results]))


if __name__ == "__main__":
    main()
