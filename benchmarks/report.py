"""Shared by all benchmarks: results with machine, versions and date, and Markdown tables."""

import json
import os
import platform
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"


def machine() -> dict[str, Any]:
    """Describe the processor, its cores and, if there is one, the GPU."""
    import torch

    description = {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
    }
    if torch.cuda.is_available():
        description["gpu"] = torch.cuda.get_device_name()
        description["cuda"] = torch.version.cuda
    return description


def versions(*packages: str) -> dict[str, str]:
    """Return the versions of Python and of those packages that are installed."""
    installed = {"python": platform.python_version()}
    for package in packages:
        try:
            installed[package] = version(package)
        except PackageNotFoundError:
            continue
    return installed


def save(path: Path, results: Any, *packages: str) -> None:
    """Write results as JSON, with the machine, the versions and the date."""
    path.parent.mkdir(parents=True, exist_ok=True)
    report = {
        "date": datetime.now(UTC).date().isoformat(),
        "machine": machine(),
        "versions": versions("foveate", "torch", *packages),
        "results": results,
    }
    path.write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(path)


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
