"""Encoding on a CPU that other processes use, too: the cost of threads that spin while they wait.

    python benchmarks/busy.py            # measure, print, save results/busy.json
    python benchmarks/busy.py --docs     # write the saved results into the page

An operator on several cores ends when its last thread does. The others wait, and libgomp, the
OpenMP of torch on Linux, lets them spin for milliseconds before they sleep. Where another process
needs the core, they keep it from that process and from each other. GOMP_SPINCOUNT limits this.

PEP 703 is encoded with libgomp's own limit and with one of 1,000 looks, which libgomp itself takes
where there are more threads than cores, while no or one other process keeps a core busy. Every
measurement is a process of its own, which encodes once as warm-up and then `REPEATS` times; all of
them take turns, `--rounds` times. Times are medians over all repetitions, with the least and the
largest.
"""

import argparse
import json
import os
import subprocess
import sys
from itertools import product
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import report
from retrieval_systems import minilm_path

PAGE = report.ROOT / "docs" / "numbers" / "cpu.md"
RESULTS = report.RESULTS / "busy.json"
PROPOSAL = report.ROOT / "examples" / "pep-0703.rst"
REPEATS = 3
SYSTEMS = (("foveate", "float32"), ("foveate", "bfloat16"), ("MiniLM", "bfloat16"))
LIMITS = {"libgomp's own": None, "1000": "1000"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--minilm", help="folder of all-MiniLM-L6-v2, by default the package's")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--output", type=Path, default=RESULTS)
    parser.add_argument("--docs", action="store_true", help="write saved results into the page")
    parser.add_argument("--worker", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        print(json.dumps(encode(*options.worker)))
    elif options.docs:
        rows = report.load(options.output)["rows"]
        report.write_tables(PAGE, {"busy": table(rows)})
    else:
        rows = compare(options.minilm or minilm_path(), options.rounds)
        print(table(rows))
        report.save(options.output, {"rows": rows}, "transformers")


def compare(minilm: str, rounds: int) -> list[dict[str, Any]]:
    """Measure all systems in turns."""
    rows = [
        {"system": system, "dtype": dtype, "busy": busy, "limit": limit, "seconds": []}
        for busy, (system, dtype), limit in product((0, 1), SYSTEMS, LIMITS)
    ]
    for _ in range(rounds):
        for row in rows:
            path = minilm if row["system"] == "MiniLM" else ""
            row["seconds"] += measure(path, row["dtype"], row["busy"], LIMITS[row["limit"]])
            print(json.dumps(row), flush=True)
    return rows


def measure(path: str, dtype: str, busy: int, limit: str | None) -> list[float]:
    """Encode in a process of its own, while others keep `busy` cores busy."""
    names = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")
    environment = {name: value for name, value in os.environ.items() if name not in names}
    if limit is not None:
        environment["GOMP_SPINCOUNT"] = limit
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(busy)]
    try:
        output = subprocess.run(
            [sys.executable, __file__, "--worker", path, dtype],
            env=environment,
            stdout=subprocess.PIPE,
            check=True,
        ).stdout
    finally:
        for other in others:
            other.kill()
            other.wait()
    return json.loads(output)


def encode(path: str, dtype: str) -> list[float]:
    """Return the seconds of each repetition."""
    from foveate import Document, Encoder

    document = Document.from_file(PROPOSAL)
    encoder = Encoder.from_pretrained(path or None, device="cpu", dtype=dtype)
    encoder.encode(document)
    seconds = []
    for _ in range(REPEATS):
        begun = perf_counter()
        encoder.encode(document)
        seconds.append(perf_counter() - begun)
    return seconds


def table(rows: list[dict[str, Any]]) -> str:
    """Format the median seconds of each system, and in brackets the least and the largest."""
    cells = {
        (row["system"], row["dtype"], row["busy"], row["limit"]): (
            f"{median(row['seconds']):.2f} ({min(row['seconds']):.2f}–{max(row['seconds']):.2f})"
        )
        for row in rows
    }
    header = ["", *(f"{busy} busy, {limit}" for busy, limit in product((0, 1), LIMITS))]
    return report.table(
        header,
        [
            [f"{system}, {dtype}", *(cells[system, dtype, *key] for key in product((0, 1), LIMITS))]
            for system, dtype in SYSTEMS
        ],
    )


if __name__ == "__main__":
    main()
