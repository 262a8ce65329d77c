"""The application: routes, guards and the page."""

import re
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from fastapi import FastAPI
from fastapi.staticfiles import StaticFiles
from starlette.middleware.cors import CORSMiddleware
from starlette.routing import Route

from foveate import __version__
from foveate.inference import LLM, Encoder
from foveate.service import errors
from foveate.service.encoder import SharedEncoder
from foveate.service.guard import LOOPBACK_NAMES, Access, Bodies, Heads, SecurityHeaders, host_name
from foveate.service.limits import Limits
from foveate.service.metrics import Measured, Metrics
from foveate.service.routes import documents, embeddings, operations, tasks
from foveate.service.schemas import Problem
from foveate.service.service import Service

if TYPE_CHECKING:
    from foveate.inference.reranker import Reranker
    from foveate.service.library import ServedLibrary  # which needs the extra `index`

PAGE = Path(__file__).parent / "page"
"""The files of the reader page."""

_OPEN = re.compile(r"/(?:[\w-]+\.(?:js|css|svg|png|ico|html|webmanifest))?|/healthz|/openapi\.json")
_PROBLEM: dict[str, Any] = {"model": Problem, "description": "The request is refused."}
_DESCRIPTION = """Read long documents: search, ask, summarize, and see what stands where.

When a request is refused, the answer has a `detail`, a sentence that says why and what to do; under
`/v1/`, it has an `error` as OpenAI's have.
"""


def create_app(
    encoder: Encoder,
    *,
    library: Path | None = None,
    limits: Limits | None = None,
    token: str | None = None,
    allowed_hosts: Iterable[str] | None = LOOPBACK_NAMES,
    allowed_origins: Iterable[str] = (),
    model_name: str = "foveate",
    llm: LLM | None = None,
    reranker: "Reranker | None" = None,
) -> FastAPI:
    """Make the application.

    Args:
        encoder: The model.
        library: Folder of the library that is served, which this encoder made.
        limits: The limits of the service.
        token: The token that clients must send; None if anybody may ask.
        allowed_hosts: Host names under which the service may be addressed; None for any.
        allowed_origins: Origins whose pages may use the service, and by whose names it may be
            addressed.
        model_name: What clients call the model.
        llm: The language model that writes; by default none does.
        reranker: The model that sorts passages and texts where that is asked for; by default none
            does.

    Raises:
        FileNotFoundError: There is no library in the folder.
        ValueError: The library is damaged, or another model made it.
    """
    limits = limits or Limits()
    metrics = Metrics()
    shared = SharedEncoder(encoder, limits.batch_tokens, limits.vector_bytes)
    service = Service(
        shared,
        model_name,
        limits,
        metrics,
        _open(library, shared),
        llm=llm,
        reranker=reranker,
        needs_token=token is not None,
    )

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with service.running():
            yield

    app = FastAPI(
        title="foveate",
        version=__version__,
        description=_DESCRIPTION,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        servers=[{"url": "."}],  # relative to the schema's address, under any prefix
        responses={"4XX": _PROBLEM, "5XX": _PROBLEM},  # in place of FastAPI's own form of errors
        lifespan=lifespan,
    )
    app.state.service = service
    origins = list(allowed_origins)
    app.add_middleware(Bodies, limits=limits)
    app.add_middleware(
        Access,
        token=token,
        is_open=lambda path: _OPEN.fullmatch(path) is not None,
        allowed_hosts=_with_names_of(origins, allowed_hosts),
        allowed_origins=origins,
    )
    if origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=origins,
            allow_methods=["GET", "POST", "DELETE"],
            allow_headers=["*"],  # clients such as OpenAI's send some of their own
            expose_headers=["Retry-After"],
        )
    app.add_middleware(Measured, metrics=metrics)
    app.add_middleware(SecurityHeaders, allowed_origins=origins)
    app.add_middleware(Heads)
    errors.add_handlers(app)
    for part in (documents, tasks, embeddings, operations):
        app.include_router(part.router)
    # A route for each file: a mount would take every GET, and answer 404 where it should be 405.
    files = StaticFiles(directory=PAGE, html=True)
    for path in ("", *(file.name for file in PAGE.iterdir())):
        app.router.routes.append(Route(f"/{path}", files, methods=["GET"]))
    return app


def _with_names_of(origins: list[str], hosts: Iterable[str] | None) -> list[str] | None:
    """Add the host names of sites, since a proxy may pass on the name by which it is called."""
    if hosts is None:
        return None
    return [*hosts, *(host_name(urlsplit(origin).netloc) for origin in origins)]


def _open(path: Path | None, encoder: SharedEncoder) -> "ServedLibrary | None":
    """Open a library; without a folder there is none."""
    if path is None:
        return None
    from foveate.index import Index
    from foveate.index.identity import identify
    from foveate.index.state import check_model
    from foveate.service.library import ServedLibrary

    index = Index.open(path, model=encoder)
    check_model(path, index.state.model, identify(encoder))
    return ServedLibrary(index)
