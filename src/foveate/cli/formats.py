"""`foveate formats`."""

from rich.markup import escape
from rich.table import Table

from foveate.documents import FORMATS

from . import common


def command(json: common.Json = False) -> None:
    """List the formats that can be read.

    \b
    foveate formats
    foveate formats --json
    """
    if json:
        common.print_json(
            [
                {
                    "name": format.name,
                    "suffixes": [suffix for suffix in format.suffixes if suffix],
                    "description": format.description,
                    "readable": format.is_installed,
                    "extra": format.extra,
                }
                for format in FORMATS.values()
            ]
        )
        return
    table = Table("name", "suffixes", "description", box=None)
    table.add_column("readable", no_wrap=True)
    for format in FORMATS.values():
        suffixes = " ".join(suffix or "none" for suffix in format.suffixes)
        is_readable = "yes" if format.is_installed else f"pip install 'foveate[{format.extra}]'"
        table.add_row(format.name, suffixes, format.description, escape(is_readable))
    common.console.print(table)
    common.console.print(
        "\n.xml is recognized by its content. Any file may be compressed with gzip, bzip2, xz or "
        "zstd."
    )
