"""Kill the building of a library at random points, and check each time that it is whole.

    python -m tests.index.library_kills --kills 50

Files are changed, added and removed; a process that brings the library up to date is ended with
SIGKILL before or after a random one of its writes, or at a random time. Then another process
checks that the library is whole and that each file is in it as it is now or as it was before, all
of it. In the end, the update is let finish, and the library is compared with one that was built
at once.
"""

import argparse
import os
import random
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"
os.environ["LANCE_LOG"] = "error"

import torch
from lance import LanceDataset
from lance.dataset import DatasetOptimizer

from foveate import Index
from foveate.index import build, units, writer
from foveate.index.lance import Store
from foveate.index.writer import Writer
from foveate.inference import Encoder, as_encoder
from tests.index.library_check import problems

WORDS = ("cod", "eels", "whales", "herring", "nets", "salt", "swim", "sleep", "eat", "follow")
QUERY = "Where do cod sleep?"
FILES = 6
STEPS = 80  # about as many as there are before and after the writes of an update


def text(rng: random.Random, version: int) -> str:
    """Make a text of a few sentences, all of which name a version."""
    sentences = [
        f"Version{version} {' '.join(rng.choices(WORDS, k=4))}." for _ in range(rng.randint(2, 6))
    ]
    return f"# Part {version}\n\n" + " ".join(sentences) + "\n"


def change(folder: Path, rng: random.Random, version: int) -> None:
    """Change, add and remove some files."""
    for number in range(FILES):
        path = folder / f"{number}.md"
        chance = rng.random()
        if chance < 0.4 or not any(folder.iterdir()):
            path.write_text(text(rng, version))
        elif chance < 0.5:
            path.unlink(missing_ok=True)


def update(library: Path, folder: Path, encoder: Encoder, killed_at: int | None = None) -> None:
    """Bring the library up to date, in several commits, and compact it sometimes."""
    if killed_at is not None:
        kill_at(killed_at)
    units.BATCH_CHARACTERS, build.COMMIT_SECONDS = 150, 0
    writer.MAX_FRAGMENTS = 3
    writer.ROWS_PER_MERGE = 20
    index = Index.create(library, exist_ok=True, model=encoder)
    index.add(folder, prune=True)
    if random.random() < 0.5:
        index.compact()


def kill_at(write: int) -> None:
    """End this process before or after one of its writes."""
    remaining = [write]

    def counted(function: Callable[..., object]) -> Callable[..., object]:
        def call(*arguments: object, **options: object) -> object:
            for is_after in (False, True):
                result = function(*arguments, **options) if is_after else None
                remaining[0] -= 1
                if remaining[0] < 0:
                    os.kill(os.getpid(), signal.SIGKILL)
            return result

        return call

    patched: tuple[tuple[Any, tuple[str, ...]], ...] = (
        (LanceDataset, ("create_scalar_index", "cleanup_old_versions")),
        (DatasetOptimizer, ("compact_files", "optimize_indices")),
        (writer, ("_create", "_write")),
        (Writer, ("_replace", "commit")),
    )
    for owner, names in patched:
        for name in names:
            setattr(owner, name, counted(getattr(owner, name)))


def check(library: Path, states: list[dict[str, str]], encoder: Encoder) -> None:
    """Fail unless the library is whole, and has each file as it is in one of the last states."""
    index = Index.create(library, exist_ok=True, model=encoder)
    if not Store(library).exists():
        return
    wrong = problems(index)
    assert not wrong, wrong
    for entry in index.documents():
        document = index.document(entry.number)
        assert document.text in [state.get(entry.file) for state in states], entry.file
    found = {
        (hit.document_idx, sentence.start)
        for hit in index.search(QUERY, top_k=10**6)
        for sentence in index.document(hit.document_idx).spans()
        if hit.span.start <= sentence.start < hit.span.end
    }
    assert len(found) == index.state.num_sentences, (len(found), index.state.num_sentences)


def compare(library: Path, folder: Path, fresh: Path, encoder: Encoder) -> None:
    """Fail unless the library finds what a new one finds."""
    update(library, folder, encoder)
    update(fresh, folder, encoder)
    found, expected = (
        [
            (hit.span, hit.best, round(hit.score, 3))
            for hit in Index.open(path, model=encoder).search(QUERY, top_k=10**6)
        ]
        for path in (library, fresh)
    )
    assert sorted(found, key=str) == sorted(expected, key=str)


def in_child(run: Callable[[], None], seconds: float | None = None) -> int:
    """Run a function in a process of its own, killed after some seconds; return its exit code."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            run()
            code = 0
        except BaseException as error:
            print(f"{type(error).__name__}: {error}", file=sys.stderr)
        finally:
            sys.stderr.flush()
            os._exit(code)
    if seconds is not None:
        time.sleep(seconds)
        os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def read(folder: Path) -> dict[str, str]:
    return {str(path): path.read_text() for path in folder.iterdir()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    rng = random.Random(options.seed)
    folder = options.folder or Path(tempfile.mkdtemp())
    files, library = folder / "files", folder / "library"
    files.mkdir(parents=True)
    encoder = as_encoder(None)
    states: list[dict[str, str]] = []
    kills = finished = 0
    while kills < options.kills:
        change(files, rng, version=kills)
        # What was not finished several times in a row may still be in an older state.
        states.append(read(files))
        write = rng.randrange(STEPS)

        is_timed = rng.random() < 0.2
        seconds = rng.uniform(0.05, 3) if is_timed else None
        code = in_child(
            partial(update, library, files, encoder, None if is_timed else write), seconds
        )
        assert code in (0, -signal.SIGKILL), f"the update failed with code {code}"
        if code == 0:
            finished += 1
            states = states[-1:]
        else:
            kills += 1
        checked = in_child(partial(check, library, states, encoder))
        assert checked == 0, f"the library is damaged after {kills} kills"
    done = in_child(lambda: compare(library, files, folder / "fresh", encoder))
    assert done == 0, "the library differs from one that was built at once"
    print(f"{kills} kills, {finished} updates that finished: whole every time")


if __name__ == "__main__":
    main()
