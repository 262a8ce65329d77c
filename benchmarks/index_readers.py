"""Building a library: how long it takes with other processes that read the files.

    python benchmarks/index_readers.py --device cuda --readers 0 2 4 8

The files are those of `library.py`. Every library is built anew by the same encoder, once for each
number of readers and round, after a first one that is not counted, in which kernels are compiled.
"""

import argparse
import shutil
import tempfile
import time
from pathlib import Path
from statistics import mean
from typing import Any

import report
from foveate import Index
from foveate.index.readers import Readers
from foveate.inference import Encoder
from library import write_files


def build(files: Path, path: Path, encoder: Encoder, readers: int) -> dict[str, Any]:
    """Build a library and remove it again."""
    index = Index.create(path, model=encoder)
    begun = time.perf_counter()
    # Some proposals were withdrawn, and are empty.
    changes = index.add(files, cluster=Readers(readers), on_error=lambda name, error: None)
    seconds = time.perf_counter() - begun
    shutil.rmtree(path)
    return {
        "readers": readers,
        "seconds": seconds,
        "documents": changes.num_documents,
        "sentences": changes.num_sentences,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=report.DATA)
    parser.add_argument("--documents", type=int, default=2000)
    parser.add_argument("--readers", type=int, nargs="+", default=[0, 2, 4, 8])
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--device")
    parser.add_argument("--output", type=Path, default=report.RESULTS / "index_readers.json")
    options = parser.parse_args()
    encoder = Encoder.from_pretrained(device=options.device)
    builds: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        files, path = Path(folder, "files"), Path(folder, "library")
        files.mkdir()
        write_files(files, options.data, options.documents)
        build(files, path, encoder, readers=options.readers[0])
        plan = [number for _ in range(options.rounds) for number in options.readers]
        for place, number in enumerate(plan):
            builds.append(build(files, path, encoder, number))
            results = {"device": str(encoder.model.device), "builds": builds}
            missing = [f"{readers} readers" for readers in plan[place + 1 :]]
            report.save(options.output, results, "lancedb", "pyarrow", missing=missing)
    print(table(builds))


def table(builds: list[dict[str, Any]]) -> str:
    """Return times and rates by the number of readers."""
    rows = []
    for number in dict.fromkeys(row["readers"] for row in builds):
        group = [row for row in builds if row["readers"] == number]
        seconds = [row["seconds"] for row in group]
        rates = [
            mean(row[of] / row["seconds"] for row in group) for of in ("documents", "sentences")
        ]
        row = [number, report.mean_and_deviation(seconds), f"{rates[0]:.1f}", f"{rates[1]:,.0f}"]
        rows.append(row)
    return report.table(["readers", "s", "documents a second", "sentences a second"], rows)


if __name__ == "__main__":
    main()
