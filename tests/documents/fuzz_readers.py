"""Damaged and hostile files are read, or rejected with a sentence that says why.

    python -m tests.documents.fuzz_readers --cases 10000

reads the files that fuzz_cases.py makes of every format, or of those named by `--formats`. Every
second one is read without saying its format. A file passes if it
gives documents, `DocumentError`, or `ImportError` for a missing extra, within a minute and 1 GiB of
memory. Documents have to keep what the documentation says of them: sentences are in order, do not
overlap, lie inside of the text, and the document survives being saved. Messages are a line that
ends in a full stop. Warnings are failures.

Files are read by forked processes, so that neither a crash nor an endless loop ends the run.
Failing files go to `--keep`. Exits with 1 if there are any.
"""

import argparse
import json
import os
import resource
import select
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path

from benchmarks import report
from tests.documents.fuzz_cases import HOSTILE, cases

SECONDS = 60
MEMORY = 2**30  # bytes beyond what the process holds when it starts
BATCH = 100  # files read by a process
_LONGEST_MESSAGE = 500  # characters


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a file: "read", "rejected" or "failed", and why."""

    kind: str
    reason: str = ""
    seconds: float = 0.0


def main() -> None:
    from foveate.documents import FORMATS

    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--cases", type=int, default=10_000, help="files of each format")
    parser.add_argument("--formats", nargs="+", default=list(FORMATS), choices=list(FORMATS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, default=report.RESULTS / "fuzz_readers.json")
    parser.add_argument("--keep", type=Path, default=Path("fuzz-failures"))
    options = parser.parse_args()
    results = []
    for format in options.formats:
        results.append(fuzz(format, options.cases, options.seed, options.keep))
        print(report.table(list(results[-1]), [list(results[-1].values())]), flush=True)
    print(report.table(list(results[0]), [list(result.values()) for result in results]))
    report.save(options.output, results, "lxml", "pypdfium2", "python-docx")
    sys.exit(any(result["failed"] for result in results))


def fuzz(format: str, count: int, seed: int, keep: Path) -> dict[str, str | int | float]:
    """Read files of a format, keep and print those that fail, and count the outcomes."""
    kinds: Counter[str] = Counter()
    slowest = 0.0
    files = chain(HOSTILE.get(format, list)(), cases(format, count, seed))
    for data, outcome in outcomes(format, files):
        kinds[outcome.kind] += 1
        slowest = max(slowest, outcome.seconds)
        if outcome.kind == "failed":
            keep.mkdir(parents=True, exist_ok=True)
            path = keep / f"{format}-{seed}-{kinds.total()}"
            path.write_bytes(data)
            print(f"{path}: {outcome.reason}", file=sys.stderr, flush=True)
    return {
        "format": format,
        "files": kinds.total(),
        "read": kinds["read"],
        "rejected": kinds["rejected"],
        "failed": kinds["failed"],
        "slowest s": slowest,
    }


def outcomes(format: str, files: Iterator[bytes]) -> Iterator[tuple[bytes, Outcome]]:
    """Read files in forked processes, each of which reads a batch or up to a failure of its own."""
    read("text", b"Cod swim.", names_format=True)  # loads what every reader needs before forking
    number = 0
    while batch := list(islice(files, BATCH)):
        done = 0
        while done < len(batch):
            for outcome in _fork(format, batch[done:], number + done):
                yield batch[done], outcome
                done += 1
        number += len(batch)


def _fork(format: str, batch: list[bytes], number: int) -> Iterator[Outcome]:
    """Read a batch in a process, which is ended when a file takes too long."""
    receiver, sender = os.pipe()
    process = os.fork()
    if process == 0:
        os.close(receiver)
        _read_batch(format, batch, number, sender)
    os.close(sender)
    try:
        with os.fdopen(receiver, "rb") as stream:
            for _ in batch:
                ready, _, _ = select.select([stream], [], [], SECONDS)
                line = stream.readline() if ready else b""
                if not line:
                    reason = "died" if ready else f"took more than {SECONDS} s"
                    yield Outcome("failed", f"the process {reason}", SECONDS)
                    return
                outcome = Outcome(*json.loads(line))
                yield outcome
                if "MemoryError" in outcome.reason:
                    return  # what is left of its memory is not known
    finally:
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)


def _read_batch(format: str, batch: list[bytes], number: int, sender: int) -> None:
    """Read a batch, and send a line for every file. Does not return."""
    try:
        resource.setrlimit(resource.RLIMIT_AS, (_held() + MEMORY, resource.RLIM_INFINITY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        warnings.simplefilter("error")
        for i, data in enumerate(batch, number):
            begun = time.perf_counter()
            outcome = read(format, data, names_format=i % 2 == 0)
            line = json.dumps([outcome.kind, outcome.reason, time.perf_counter() - begun])
            os.write(sender, line.encode() + b"\n")
    finally:
        os._exit(0)


def _held() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    return pages * resource.getpagesize()


def read(format: str, data: bytes, *, names_format: bool = True) -> Outcome:
    """Read a file in this process.

    Args:
        format: Name of its format.
        data: Its content.
        names_format: Whether the format is named or has to be recognized.
    """
    from foveate.documents import DocumentError, read_documents

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "file")
        path.write_bytes(data)
        try:
            documents = list(read_documents(path, format=format if names_format else None))
        except (DocumentError, ImportError) as error:
            message = str(error).replace(str(path), "FILE")
            if "\n" in message or not message.endswith(".") or len(message) > _LONGEST_MESSAGE:
                return Outcome("failed", f"{type(error).__name__} says {message!r:.1000}")
            return Outcome("rejected", message)
        except BaseException as error:
            return Outcome("failed", f"{type(error).__name__}: {_where(error)}: {error!s:.300}")
    try:
        for document in documents:
            check(document)
    except BaseException as error:
        return Outcome("failed", f"{type(error).__name__}: {_where(error)}: {error!s:.300}")
    return Outcome("read")


def check(document) -> None:
    """Raise AssertionError if a document breaks a promise."""
    from foveate.documents import Document

    listings = {
        one for part in document.paragraphs() if part.kind == "code" for one in part.sentences
    }
    end = 0
    for sentence, span in zip(document.sentences(), document.spans(), strict=True):
        assert end <= sentence.start < sentence.end <= len(document.text), "overlap"
        shown = " ".join(sentence.text.split())
        assert sentence.text == shown != "" or sentence in listings, "spaces"
        assert (span.start, span.end, span.text) == (sentence.start, sentence.end, sentence.text)
        assert span.place, "no place"
        end = sentence.end
    assert Document.from_dict(json.loads(json.dumps(document.to_dict()))) == document, "saved"


def _where(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if "foveate" in frame.filename] or frames
    return f"{Path(own[-1].filename).name}:{own[-1].lineno}"


if __name__ == "__main__":
    main()
