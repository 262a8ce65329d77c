"""Shared by all benchmarks: results with machine, versions and date, and Markdown tables."""

import json
import os
import platform
import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import mean, median, stdev
from time import perf_counter
from typing import Any

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
STUDIES = ROOT / "studies"
DATA = ROOT.parent / "shared" / "data"
"""The folder of texts that README.md describes, unless a script is given another."""


@cache
def machine() -> dict[str, Any]:
    """Describe the processor, its cores and, if there is one, the GPU.

    The launch time says how much of a short forward pass is the host's: it launches a few hundred
    kernels one after the other.
    """
    import torch

    description = {
        "processor": _processor(),
        "cores": _cores(),
        "threads": torch.get_num_threads(),
    }
    if torch.cuda.is_available():
        description["gpu"] = torch.cuda.get_device_name()
        description["cuda"] = torch.version.cuda
        description["launch µs"] = round(_launch_time(), 2)
    return description


def _cores() -> int | None:
    """Return the number of cores that the process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count()


def _launch_time() -> float:
    """Return the median microseconds in which the host launches an empty kernel."""
    import torch

    launches, at_once = 2000, 100
    times = []
    for number in range(launches + at_once):  # the first ones warm up
        if number % at_once == 0:
            torch.cuda.synchronize()  # the queue never fills up
        begun = perf_counter()
        torch.cuda._sleep(0)  # a kernel that counts no cycles
        times.append((perf_counter() - begun) * 1e6)
    return median(times[at_once:])


def versions(*packages: str) -> dict[str, str]:
    """Return the versions of Python and of those packages that are installed."""
    installed = {"python": platform.python_version()}
    for package in packages:
        try:
            installed[package] = version(package)
        except PackageNotFoundError:
            continue
    return installed


def save(path: Path, results: Any, *packages: str, missing: Sequence[str] | None = None) -> None:
    """Write results as JSON, with the machine, the versions and the date.

    The file is replaced at once, so that a run which is interrupted leaves what it saved last. The
    machine is printed with the first one.

    Args:
        path: The file.
        results: What was measured.
        packages: Names of packages whose versions matter besides those of foveate and torch.
        missing: What the run has not measured yet, for runs that save after every measurement: the
            file says whether the run finished, and what is missing.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    report = {
        "date": datetime.now(UTC).date().isoformat(),
        "machine": machine(),
        "versions": versions("foveate", "torch", *packages),
    }
    if missing is not None:
        report |= {"finished": not missing, "missing": list(missing)}
    report["results"] = results
    temporary = path.with_name(f"{path.name}.tmp")
    temporary.write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    temporary.replace(path)
    _print_machine()
    if not missing:
        print(path)


def load(path: Path) -> Any:
    """Load results that `save` wrote."""
    return json.loads(path.read_text(encoding="utf-8"))["results"]


def table(header: list[str], rows: list[list[Any]]) -> str:
    """Format a Markdown table; floats get three significant digits."""
    cells = [[_cell(value) for value in row] for row in [header, *rows]]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    lines = [
        "| " + " | ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) + " |"
        for row in cells
    ]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines)


def mean_and_deviation(values: Sequence[float], digits: int = 1) -> str:
    """Format a mean and, of several values, their standard deviation."""
    deviation = f" ± {stdev(values):.{digits}f}" if len(values) > 1 else ""
    return f"{mean(values):.{digits}f}{deviation}"


def marked(value: float, values: Iterable[float]) -> str:
    """Format a value with one digit, in bold if none of the values is shown as a higher one."""
    shown = f"{value:.1f}"
    return f"**{shown}**" if shown == f"{max(values):.1f}" else shown


def write_tables(page: Path, found: dict[str, str]) -> None:
    """Replace the tables of a page that follow comments such as `<!-- table: within -->`.

    Raises:
        ValueError: The page has no place for one of the tables.
    """
    text = page.read_text(encoding="utf-8")
    for name, table in found.items():
        place = re.compile(rf"(<!-- table: {re.escape(name)} -->\n\n)(?:(?:\|.*\n)+\n)?")
        text, number = place.subn(lambda match, table=table: f"{match[1]}{table}\n\n", text)
        if not number:
            raise ValueError(f"{page} has no place for the table {name!r}")
    page.write_text(text, encoding="utf-8")
    print(page)


@cache
def _print_machine() -> None:
    print(", ".join(f"{name}: {value}" for name, value in machine().items()), flush=True)


def _cell(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"
    return str(value)


def _processor() -> str:
    try:
        info = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.processor()
    names = [line.split(":", 1)[1].strip() for line in info.splitlines() if "model name" in line]
    return names[0] if names else platform.processor()
