"""Routes for documents: sending them, and reading what is in them."""

import asyncio
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, Query, Request, Response
from fastapi import Path as InPath
from pydantic import TypeAdapter

from foveate.documents.readers.pdf.text_layer import TextLayer
from foveate.service import inputs
from foveate.service.errors import Refusal
from foveate.service.schemas import (
    DocumentList,
    DocumentModel,
    PageModel,
    SectionModel,
    SentenceModel,
)
from foveate.service.service import Service, service_of
from foveate.service.view import DocumentView, library_id, new_id

if TYPE_CHECKING:
    from foveate.index import LibraryDocument

MAX_SENTENCES = 2_000
"""Most sentences of one answer."""

Id = Annotated[str, InPath(description="Id of a document.")]
PageNumber = Annotated[int, InPath(ge=1, le=100_000, description="Number of the page, from 1.")]

router = APIRouter(tags=["documents"])


@router.post(
    "/documents",
    status_code=201,
    summary="Send a document",
    openapi_extra=inputs.SCHEMA,
)
async def send_document(request: Request) -> DocumentModel:
    """Send a document, as a file or as text, to ask about it by its id.

    It is kept in memory, and forgotten when it has not been used for a while or others need the
    room. Whoever knows its id can read it.
    """
    service = service_of(request)
    content = await inputs.parse(request)

    async def answer() -> DocumentModel:
        view = await service.read(content, new_id())
        model = await service.work.call(describe, view)
        if not service.uploads.add(view):
            raise Refusal(413, "The document takes more memory than this service has for it.")
        return model

    return await service.work.run(request, answer)


@router.get("/documents", summary="List the library's documents")
async def list_documents(
    request: Request,
    query: Annotated[
        str, Query(max_length=1000, description="Words of the title or the file's name.")
    ] = "",
    offset: Annotated[int, Query(ge=0, le=2**31)] = 0,
    limit: Annotated[int, Query(ge=1, le=1000)] = 50,
) -> DocumentList:
    """List the documents of the library, in the order of their files' names."""
    library = service_of(request).library
    if library is None:
        return DocumentList(total=0, documents=[])
    found = await asyncio.to_thread(library.find, query)
    documents = [describe_entry(entry) for entry in found[offset : offset + limit]]
    return DocumentList(total=len(found), documents=documents)


@router.get("/documents/{document_id}", summary="Describe a document")
async def get_document(request: Request, document_id: Id) -> DocumentModel:
    """Return a document's title, language and size."""
    view = await service_of(request).find(document_id)
    return await asyncio.to_thread(describe, view)


@router.delete(
    "/documents/{document_id}",
    status_code=204,
    summary="Forget a document",
)
async def delete_document(request: Request, document_id: Id) -> Response:
    """Forget a document that was sent. Documents of the library cannot be deleted."""
    service = service_of(request)
    if not service.uploads.remove(document_id):
        await service.find(document_id)
        raise Refusal(403, "Documents of the library are removed with `foveate library remove`.")
    return Response(status_code=204)


@router.get("/documents/{document_id}/outline", summary="Get the outline")
async def get_outline(request: Request, document_id: Id) -> list[SectionModel]:
    """Return all sections in the order of the document."""
    view = await service_of(request).find(document_id)
    return await asyncio.to_thread(lambda: view.sections)


@router.get(
    "/documents/{document_id}/sentences",
    summary="Get sentences",
)
async def get_sentences(
    request: Request,
    document_id: Id,
    start: Annotated[int, Query(ge=0, le=2**31, description="Index of the first one.")] = 0,
    end: Annotated[
        int | None, Query(ge=0, le=2**31, description="Index just past the last one.")
    ] = None,
) -> list[SentenceModel]:
    """Return sentences by their index, at most 2,000 at once."""
    view = await service_of(request).find(document_id)
    return await asyncio.to_thread(_sentences, view, start, end)


@router.get("/documents/{document_id}/pages", summary="Get the pages' sizes")
async def get_pages(request: Request, document_id: Id) -> list[PageModel]:
    """Return the size of each page; formats without pages have none."""
    layout = (await service_of(request).find(document_id)).document.layout
    sizes = [] if layout is None else layout.page_sizes.tolist()
    return [
        PageModel(number=number, width=width, height=height)
        for number, (width, height) in enumerate(sizes, start=1)
    ]


@router.get(
    "/documents/{document_id}/pages/{number}.png",
    summary="Draw a page",
    response_class=Response,
    responses={
        200: {"content": {"image/png": {"schema": {"type": "string", "format": "binary"}}}},
    },
)
async def draw_page(
    request: Request,
    document_id: Id,
    number: PageNumber,
    scale: Annotated[float, Query(gt=0, le=4, description="Pixels per point.")] = 1.5,
) -> Response:
    """Draw a page of a PDF as PNG.

    A page of the library is drawn from its file, if that is still there and has not been changed.
    """
    service = service_of(request)
    view = await _find_page(service, document_id, number)
    load = partial(_pdf, service, view)
    draw = partial(service.drawers.ask, document_id, load, number, "page", scale=scale)
    picture = await service.work.run(request, partial(service.work.call, draw))
    return Response(picture, media_type="image/png", headers={"Cache-Control": "private"})


@router.get(
    "/documents/{document_id}/pages/{number}/text",
    summary="Get the text of a page",
)
async def get_page_text(request: Request, document_id: Id, number: PageNumber) -> TextLayer:
    """Return the words of a page of a PDF with their places, as they stand on it.

    Words at another angle than most of the page, and those inside drawings, are left out, and so
    is everything after the first 20,000 words. The file must be there, as for the page's image.
    """
    service = service_of(request)
    view = await _find_page(service, document_id, number)

    def read() -> bytes:
        said = {"text": view.page_text(number), "language": view.document.language}
        load = partial(_pdf, service, view)
        return service.drawers.ask(document_id, load, number, "text layer", **said)

    layer = await service.work.run(request, partial(service.work.call, read))
    return TypeAdapter(TextLayer).validate_json(layer)


async def _find_page(service: Service, document_id: str, number: int) -> DocumentView:
    """Return a document that has a page of that number."""
    view = await service.find(document_id)
    if number > (view.num_pages or 0):
        raise Refusal(404, f"There is no page {number}: the document has {view.num_pages or 0}.")
    return view


def describe(view: DocumentView) -> DocumentModel:
    """Return the description of a document."""
    document = view.document
    return DocumentModel(
        id=view.id or "",
        name=document.name,
        title=document.title,
        authors=list(document.authors),
        date=document.date,
        language=document.language,
        num_sentences=len(view.places),
        num_sections=len(view.sections),
        num_words=view.num_words,
        num_pages=view.num_pages,
        format=view.format,
        notes=view.notes,
    )


def describe_entry(entry: "LibraryDocument") -> DocumentModel:
    """Return the description of a library's document, without reading it."""
    return DocumentModel(
        id=library_id(entry.number),
        name=entry.source,
        title=entry.title,
        authors=list(entry.authors),
        date=entry.date,
        language=entry.language,
        num_sentences=entry.num_sentences,
        num_sections=entry.num_sections,
        num_words=None,
        num_pages=None,
        format=entry.format,
        notes=[],
    )


def _sentences(view: DocumentView, start: int, end: int | None) -> list[SentenceModel]:
    end = min(len(view.spans) if end is None else end, len(view.spans), start + MAX_SENTENCES)
    return [
        SentenceModel(
            sentence_idx=idx,
            section_idx=view.places[idx].section_idx,
            paragraph_idx=view.places[idx].paragraph_idx,
            kind=view.places[idx].kind,
            speaker=view.spans[idx].speaker,
            text=view.spans[idx].text,
            page=view.spans[idx].page,
            place=view.spans[idx].place,
            boxes=list(view.spans[idx].boxes),
        )
        for idx in range(start, end)
    ]


def _pdf(service: Service, view: DocumentView) -> bytes:
    """Return the PDF that a document was read from."""
    if view.data is not None:
        return view.data
    path: Path | None = None
    if service.library is not None and view.id is not None:
        path = service.library.pdf(view.id)
    if path is None:
        raise Refusal(404, "The document's PDF is not there anymore, or has been changed.")
    try:
        return path.read_bytes()
    except OSError as error:
        raise Refusal(404, "The document's PDF cannot be read.") from error
