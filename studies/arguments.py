"""Options that several scripts share, declared once."""

import argparse
from pathlib import Path
from typing import Any

from benchmarks import report

_OPTIONS: dict[str, dict[str, Any]] = {
    "data": {"type": Path, "default": report.DATA, "help": "folder of texts, see README.md"},
    "model": {"help": "name or path of an encoder"},
    "minilm": {"help": "folder of all-MiniLM-L6-v2, by default the package's"},
    "device": {"help": "by default a GPU if there is one"},
    "dtype": {"help": "of linear layers, by default that of the checkpoint"},
    "limit": {"type": int, "help": "texts of each set, by default all"},
    "lengths": {"type": int, "nargs": "+", "help": "tokens"},
    "output": {"type": Path, "help": "where to save the results"},
    "plot": {"action": "store_true", "help": "draw the picture from saved results"},
    "docs": {"action": "store_true", "help": "write saved results into the page"},
}


def parser(docstring: str, *names: str, **defaults: Any) -> argparse.ArgumentParser:
    """Return a parser with some of these options.

    Args:
        docstring: The script's, whose first line describes it.
        names: The options to add.
        defaults: Options to add with a default of their own.
    """
    parser = argparse.ArgumentParser(description=docstring.partition("\n")[0])
    for name in (*names, *defaults):
        parser.add_argument(f"--{name}", **_OPTIONS[name])
    parser.set_defaults(**defaults)
    return parser
