"""`foveate serve`."""

from dataclasses import dataclass
from pathlib import Path

from foveate.tasks.parameters import parameter

from .listening import ListeningOptions
from .models import ENCODER, OF_LIBRARY, RERANKER, LoadingOptions, checkpoint, load_reranker
from .writing import ServerOptions


@dataclass(kw_only=True)
class ServeCommand(LoadingOptions, ServerOptions, ListeningOptions):
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

    library: Path | None = parameter(
        "Library built by `foveate index`, to search and read. Default: only uploads.",
        None,
        short="-l",
        metavar="DIR",
    )
    port: int = parameter("Port; 0 picks a free one.", 8321, ge=0, le=65535)
    allow_origin: list[str] | None = parameter(
        "A site whose pages may use the service, and whose name a proxy may pass on, such as "
        "https://example.org; may be repeated. Default: none.",
        None,
        metavar="URL",
    )
    max_mb: int = parameter("Largest request, in MiB.", 64, ge=1)
    max_pages: int = parameter("Longest PDF, in pages.", 5000, ge=1)
    timeout: int = parameter(
        "Time after which a request is abandoned.", 300, ge=1, metavar="SECONDS"
    )
    keep: int = parameter(
        "Time after which an unused upload is forgotten.", 60, ge=1, metavar="MINUTES"
    )
    model: str | None = checkpoint(f"{ENCODER}{OF_LIBRARY}")
    rerank: str | None = checkpoint(RERANKER)

    def __call__(self) -> None:
        from foveate.service.server import check_origins

        check_origins(self.allow_origin or ())
        llm = self.server()
        with self.listen(self.port) as opened:
            index = self.open_library(self.library) if self.library else None
            encoder = index.encoder if index else self.load_encoder()
            reranker = load_reranker(self.rerank) if self.rerank else None
            from foveate.service.app import create_app
            from foveate.service.limits import Limits

            app = create_app(
                encoder,
                library=self.library,
                limits=Limits(
                    body_bytes=self.max_mb * 2**20,
                    pages=self.max_pages,
                    request_seconds=self.timeout,
                    upload_seconds=60 * self.keep,
                ),
                token=self.token,
                allowed_hosts=self.allowed_hosts,
                allowed_origins=self.allow_origin or (),
                model_name=_model_name(self.model),
                llm=llm,
                reranker=reranker,
            )
            self.serve(app, opened)


def _model_name(model: str | None) -> str:
    """Return what clients call the model: the last part of its path or name."""
    return "foveate" if model is None else Path(model).name or "foveate"
