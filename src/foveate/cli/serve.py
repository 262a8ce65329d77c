"""`foveate serve`."""

from pathlib import Path
from typing import Annotated

import typer

from . import common
from .reading import takes_options
from .writing import Llm, LlmModel, language_model


@takes_options
def command(
    library: Annotated[
        Path | None,
        typer.Option(
            "--library",
            "-l",
            metavar="DIR",
            help="Library built by `foveate index`, to search and read. Default: only uploads.",
            show_default=False,
        ),
    ] = None,
    host: common.Host = "127.0.0.1",
    port: Annotated[
        int, typer.Option(metavar="N", min=0, max=65535, help="Port; 0 picks a free one.")
    ] = 8321,
    token: common.Token = None,
    allow_origin: Annotated[
        list[str] | None,
        typer.Option(
            metavar="URL",
            help="A site whose pages may use the service, and whose name a proxy may pass on, such "
            "as https://example.org; may be repeated. Default: none.",
            show_default=False,
        ),
    ] = None,
    max_mb: Annotated[int, typer.Option(metavar="N", min=1, help="Largest request, in MiB.")] = 64,
    max_pages: Annotated[
        int, typer.Option(metavar="N", min=1, help="Longest PDF, in pages.")
    ] = 5000,
    timeout: Annotated[
        int, typer.Option(metavar="SECONDS", min=1, help="Time after which a request is abandoned.")
    ] = 300,
    keep: Annotated[
        int,
        typer.Option(
            metavar="MINUTES", min=1, help="Time after which an unused upload is forgotten."
        ),
    ] = 60,
    llm: Llm = None,
    llm_model: LlmModel = None,
    model: common.LibraryModel = None,
    rerank: common.Rerank = None,
    *,
    loading: common.Loading,
) -> None:
    """Serve documents to the browser and to programs: search, ask, summarize, embed.

    The page is at http://127.0.0.1:8321, the description of the API at
    http://127.0.0.1:8321/openapi.json. Uploads stay in memory and are forgotten
    after a while; nothing is written to disk, and nothing is sent elsewhere,
    except to a language model that --llm names.

    \b
    foveate serve
    foveate serve --library papers.library --port 9000
    FOVEATE_TOKEN=… foveate serve --host 0.0.0.0 --library papers.library
    """
    from foveate.service.server import check_address, check_origins, listen, run

    check_address(host, token)
    check_origins(allow_origin or ())
    written_by = language_model(llm, llm_model)
    opened = listen(host, port)
    with opened:
        index = common.open_library(library, model, loading) if library else None
        encoder = index.encoder if index else common.load_encoder(model, loading)
        reranker = common.load_reranker(rerank) if rerank else None
        from foveate.service.app import create_app
        from foveate.service.guard import LOOPBACK_NAMES, is_loopback
        from foveate.service.limits import Limits

        app = create_app(
            encoder,
            library=library,
            limits=Limits(
                body_bytes=max_mb * 2**20,
                pages=max_pages,
                request_seconds=timeout,
                upload_seconds=60 * keep,
            ),
            token=token,
            allowed_hosts=[*LOOPBACK_NAMES, host] if is_loopback(host) else None,
            allowed_origins=allow_origin or (),
            model_name=_model_name(model),
            llm=written_by,
            reranker=reranker,
        )
        address = f"[{host}]" if ":" in host else host
        url = f"http://{address}:{opened.getsockname()[1]}"
        run(app, opened, lambda: common.console.print(f"foveate serves {url}", markup=False))


def _model_name(model: str | None) -> str:
    """Return what clients call the model: the last part of its path or name."""
    return "foveate" if model is None else Path(model).name or "foveate"
