"""`foveate mcp`."""

from pathlib import Path
from typing import Annotated

import typer

from . import common
from .reading import takes_options


@takes_options
def command(
    library: Annotated[
        Path,
        typer.Option(
            "--library",
            "-l",
            metavar="DIR",
            help="The folder of a library built by `foveate index`.",
            show_default=False,
        ),
    ],
    model: common.LibraryModel = None,
    *,
    loading: common.Loading,
) -> None:
    """Let an assistant search a library, through the Model Context Protocol.

    Assistants start it themselves, and talk to it over standard input and
    output. Its tools are search, ask, read, summarize, outline and
    list_documents; they change nothing.

    \b
    foveate index papers/ --library papers.library
    foveate mcp --library papers.library

    In the settings of an assistant:

    \b
    {"mcpServers": {"papers": {"command": "foveate",
       "args": ["mcp", "--library", "/home/ada/papers.library"]}}}
    """
    if not library.is_dir():
        raise FileNotFoundError(
            f"there is no library in {library}: make one with "
            f"`foveate index PATH --library {library}`"
        )
    from foveate.mcp import make_server  # which takes a moment to import

    make_server(library, model=model, **loading.options()).run("stdio")
