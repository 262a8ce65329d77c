"""`foveate mcp`."""

from dataclasses import dataclass
from pathlib import Path

from foveate.tasks.parameters import parameter

from .listening import ListeningOptions
from .models import ENCODER, OF_LIBRARY, RERANKER, LoadingOptions, checkpoint


@dataclass(kw_only=True)
class McpCommand(LoadingOptions, ListeningOptions):
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

    library: Path = parameter(
        "The folder or URL of a library built by `foveate index`.", short="-l", metavar="DIR"
    )
    port: int | None = parameter(
        "Serve over HTTP at this port; 0 picks a free one. Default: over standard input and "
        "output.",
        None,
        ge=0,
        le=65535,
    )
    rerank: str | None = checkpoint(RERANKER)
    model: str | None = checkpoint(f"{ENCODER}{OF_LIBRARY}")

    def __call__(self) -> None:
        from foveate.index.sources import is_url

        if not self.library.is_dir() and not is_url(self.library):
            raise FileNotFoundError(
                f"there is no library in {self.library}: make one with "
                f"`foveate index PATH --library {self.library}`"
            )
        from foveate.mcp import make_server  # which takes a moment to import

        server = make_server(self.library, model=self.model, rerank=self.rerank, **self.loading())
        if self.port is None:
            server.run("stdio")
            return
        from foveate.service.guard import Access

        with self.listen(self.port) as opened:
            app = server.streamable_http_app(host=self.host)
            app.add_middleware(
                Access,
                token=self.token,
                is_open=lambda _: False,
                allowed_hosts=self.allowed_hosts,
            )
            self.serve(app, opened, "/mcp")
