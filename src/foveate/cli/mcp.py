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
            help="The folder or URL of a library built by `foveate index`.",
            show_default=False,
        ),
    ],
    port: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=0,
            max=65535,
            help="Serve over HTTP at this port; 0 picks a free one. Default: over standard input "
            "and output.",
            show_default=False,
        ),
    ] = None,
    host: common.Host = "127.0.0.1",
    token: common.Token = None,
    rerank: common.Rerank = None,
    model: common.LibraryModel = None,
    *,
    loading: common.Loading,
) -> None:
    """Let an assistant search a library, through the Model Context Protocol.

    Assistants start it themselves, and talk to it over standard input and
    output; with --port, it serves several over HTTP, at the path /mcp. Its
    tools are outline, search, context and read; they change nothing.

    \b
    foveate index papers/ --library papers.library
    foveate mcp --library papers.library
    FOVEATE_TOKEN=… foveate mcp --library papers.library --port 9000

    In the settings of an assistant:

    \b
    {"mcpServers": {"papers": {"command": "foveate",
       "args": ["mcp", "--library", "/home/ada/papers.library"]}}}
    """
    from foveate.index.sources import is_url

    if not library.is_dir() and not is_url(library):
        raise FileNotFoundError(
            f"there is no library in {library}: make one with "
            f"`foveate index PATH --library {library}`"
        )
    from foveate.mcp import make_server  # which takes a moment to import

    server = make_server(library, model=model, rerank=rerank, **loading.options())
    if port is None:
        server.run("stdio")
        return
    from foveate.service.guard import LOOPBACK_NAMES, Access, is_loopback
    from foveate.service.server import check_address, listen, run

    check_address(host, token)
    app = server.streamable_http_app(host=host)
    app.add_middleware(
        Access,
        token=token,
        is_open=lambda _: False,
        allowed_hosts=[*LOOPBACK_NAMES, host] if is_loopback(host) else None,
    )
    with listen(host, port) as opened:
        address = f"[{host}]" if ":" in host else host
        url = f"http://{address}:{opened.getsockname()[1]}/mcp"
        run(app, opened, lambda: common.console.print(f"foveate serves {url}", markup=False))
