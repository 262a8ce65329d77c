"""Routes for operators: health and metrics."""

from fastapi import APIRouter, Request
from fastapi.responses import PlainTextResponse, Response
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from pydantic import BaseModel

from foveate import __version__
from foveate.service.service import service_of


class Health(BaseModel):
    """The health of the service."""

    status: str
    version: str
    model: str
    library: bool
    llm: bool
    reranker: bool
    explain: bool
    needs_token: bool


router = APIRouter(tags=["operations"])


@router.get("/healthz", summary="Health")
async def health(request: Request) -> Health:
    """Say that the service runs, and what it serves."""
    service = service_of(request)
    return Health(
        status="ok",
        version=__version__,
        model=service.model_name,
        library=service.library is not None,
        llm=service.llm is not None,
        reranker=service.reranker is not None,
        explain=service.encoder.has_tokens,
        needs_token=service.needs_token,
    )


@router.get("/metrics", summary="Counters for Prometheus", response_class=PlainTextResponse)
async def metrics(request: Request) -> Response:
    """Return the counters in the text format of Prometheus."""
    content = generate_latest(service_of(request).metrics.registry)
    return Response(content, media_type=CONTENT_TYPE_LATEST)
