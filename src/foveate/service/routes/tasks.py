"""Routes for tasks on documents: search, ask, summarize, keywords and outline."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from fastapi import APIRouter, Request
from pydantic import BaseModel

from foveate.documents import Span
from foveate.service import inputs
from foveate.service.errors import Refusal
from foveate.service.schemas import (
    AskRequest,
    AskResult,
    HitModel,
    KeywordModel,
    KeywordPlace,
    KeywordsRequest,
    KeywordsResult,
    LibraryRequest,
    OutlineRequest,
    OutlineResult,
    PassageModel,
    SearchRequest,
    SearchResult,
    SpanModel,
    SummarizeRequest,
    SummaryResult,
    SummarySentenceModel,
    TaskRequest,
)
from foveate.service.service import Service, service_of
from foveate.service.view import DocumentView, library_id, library_number
from foveate.tasks.ask import Passage, best_passages
from foveate.tasks.keywords import keywords
from foveate.tasks.ranking import rank, score
from foveate.tasks.relevance import is_likely
from foveate.tasks.summarize import extract

if TYPE_CHECKING:
    from foveate.service.library import Library

Arguments = TypeVar("Arguments", bound=TaskRequest)
Result = TypeVar("Result", bound=BaseModel)

router = APIRouter(tags=["tasks"])


@router.post(
    "/search",
    summary="Search",
    openapi_extra=inputs.body_schema(SearchRequest, SearchRequest, has_file=False),
)
async def search(request: Request) -> SearchResult:
    """Find what matches a query best, in a document or in the library.

    For one document, the answer also says how well each of its sections matches.
    """
    return await _answer(request, SearchRequest, _search)


@router.post(
    "/ask",
    summary="Ask",
    openapi_extra=inputs.body_schema(AskRequest, AskRequest, has_file=False),
)
async def ask(request: Request) -> AskResult:
    """Find the passages that answer a question, in a document or in the library."""
    return await _answer(request, AskRequest, _ask)


@router.post(
    "/summarize",
    summary="Summarize",
    openapi_extra=inputs.body_schema(SummarizeRequest, SummarizeRequest, has_file=False),
)
async def summarize_document(request: Request) -> SummaryResult:
    """Summarize a document by its most central sentences."""
    return await _answer(request, SummarizeRequest, _on_document(_summarize))


@router.post(
    "/keywords",
    summary="Find keywords",
    openapi_extra=inputs.body_schema(KeywordsRequest, KeywordsRequest, has_file=False),
)
async def find_keywords(request: Request) -> KeywordsResult:
    """Find the words and phrases that characterize a document."""
    return await _answer(request, KeywordsRequest, _on_document(_keywords))


@router.post(
    "/outline",
    summary="Get an outline",
    openapi_extra=inputs.body_schema(OutlineRequest, OutlineRequest, has_file=True),
)
async def get_outline(request: Request) -> OutlineResult:
    """Return the sections of a document, in its order."""
    return await _answer(request, OutlineRequest, _on_document(_outline))


async def _answer(
    request: Request,
    model: type[Arguments],
    function: Callable[[Service, Arguments, DocumentView | None], Result],
) -> Result:
    """Answer a question about the document that a request names or brings.

    Args:
        request: The request.
        model: Its arguments.
        function: Computes the answer, in a thread. It gets no document if the request has none.
    """
    service = service_of(request)
    arguments, content = await inputs.parse(request, model)
    if arguments.text is not None:
        content = inputs.text_content(arguments.text, arguments)

    async def answer() -> Result:
        if content is None:
            view = None if arguments.document is None else await service.find(arguments.document)
            return await service.work.call(_checked, function, service, arguments, view)
        view = await service.read(content, None)
        try:
            return await service.work.call(_checked, function, service, arguments, view)
        finally:
            service.encoder.forget(view.document)

    return await service.work.run(request, answer)


def _checked(
    function: Callable[[Service, Arguments, DocumentView | None], Result],
    service: Service,
    arguments: Arguments,
    view: DocumentView | None,
) -> Result:
    """Turn a task's errors about its arguments into refusals."""
    try:
        return function(service, arguments, view)
    except ValueError as error:
        raise Refusal(422, str(error)) from error


def _on_document(
    function: Callable[[Service, Arguments, DocumentView], Result],
) -> Callable[[Service, Arguments, DocumentView | None], Result]:
    """Make a function for one document refuse requests without one."""

    def with_document(service: Service, arguments: Arguments, view: DocumentView | None) -> Result:
        if view is None:
            raise Refusal(422, "Give a document, a text or a file.")
        return function(service, arguments, view)

    return with_document


def _search(service: Service, arguments: SearchRequest, view: DocumentView | None) -> SearchResult:
    library = _library(service, arguments, view)
    if library is None:
        assert view is not None
        [scores] = score(arguments.query, [view.document], service.encoder)
        hits = []
        for ranked in rank([scores], [view.document], arguments.by, arguments.top_k):
            span, section_idx = view.part(arguments.by, ranked.idx)
            likely = is_likely(ranked.best_score, service.encoder)
            hit = _hit(
                view, span, ranked.best, section_idx, ranked.score, likely, arguments.context
            )
            hits.append(hit)
        return SearchResult(hits=hits, section_scores=_rounded(scores.sections.tolist()))
    conditions = _conditions(arguments, view)
    found = library.search(arguments.query, arguments.by, arguments.top_k, **conditions)
    hits = []
    for one in found:
        holder = library.view(library_id(one.document_idx))
        if holder is None:
            continue  # removed since
        best = holder.sentence_idx(one.best.start)
        section_idx = None
        if arguments.by == "sentence":
            section_idx = holder.places[best].section_idx
        elif arguments.by == "section":
            section_idx = holder.section_idx(one.span)
        hit = _hit(holder, one.span, best, section_idx, one.score, one.likely, arguments.context)
        hits.append(hit)
    return SearchResult(hits=hits, section_scores=_section_scores(library, arguments, view))


def _ask(service: Service, arguments: AskRequest, view: DocumentView | None) -> AskResult:
    library = _library(service, arguments, view)
    if library is None:
        assert view is not None
        [scores] = score(arguments.query, [view.document], service.encoder)
        found = best_passages([view.document], scores.sentences, arguments.top_k, service.encoder)
        return AskResult(
            question=arguments.query,
            passages=[_passage(view, one, arguments.context) for one in found],
            section_scores=_rounded(scores.sections.tolist()),
        )
    answer = library.ask(arguments.query, arguments.top_k, **_conditions(arguments, view))
    holders = [library.view(library_id(one.document_idx)) for one in answer.passages]
    passages = [
        _passage(holder, one, arguments.context)
        for holder, one in zip(holders, answer.passages, strict=True)
        if holder is not None  # it may have been removed since
    ]
    return AskResult(
        question=arguments.query,
        passages=passages,
        section_scores=_section_scores(library, arguments, view),
    )


def _summarize(service: Service, arguments: SummarizeRequest, view: DocumentView) -> SummaryResult:
    number = None if view.id is None else library_number(view.id)
    summary = extract(
        view.document,
        service.encoder.encode(view.document)
        if number is None or service.library is None
        else service.library.vectors(number),
        service.encoder,
        query=arguments.query,
        sentences=arguments.sentences,
        words=arguments.words,
    )
    sentences = []
    for one in summary.sentences:
        idx = view.sentence_idx(one.span.start)
        sentences.append(
            SummarySentenceModel(
                span=SpanModel.from_span(one.span),
                sentence_idx=idx,
                section_idx=view.places[idx].section_idx,
                score=round(one.score, 4),
            )
        )
    return SummaryResult(text=summary.text, sentences=sentences)


def _keywords(service: Service, arguments: KeywordsRequest, view: DocumentView) -> KeywordsResult:
    found = keywords(
        view.document, top_k=arguments.top_k, method=arguments.method, model=service.encoder
    )
    return KeywordsResult(
        keywords=[
            KeywordModel(
                text=keyword.text,
                score=float(f"{keyword.score:.4g}"),
                num_places=len(keyword.spans),
                places=[
                    KeywordPlace(
                        span=SpanModel.from_span(span), sentence_idx=view.sentence_idx(span.start)
                    )
                    for span in keyword.spans[: arguments.places]
                ],
            )
            for keyword in found
        ]
    )


def _outline(service: Service, arguments: OutlineRequest, view: DocumentView) -> OutlineResult:
    return OutlineResult(title=view.document.title, sections=view.sections)


def _library(
    service: Service, arguments: LibraryRequest, view: DocumentView | None
) -> "Library | None":
    """Return the library, if it is what is searched."""
    if view is None:
        if service.library is None:
            raise Refusal(422, "Give a document, a text or a file: this service has no library.")
        return service.library
    if view.id is not None and library_number(view.id) is not None:
        return service.library
    for name in ("where", "path", "section"):
        if getattr(arguments, name) is not None:
            raise Refusal(422, f"{name}: this is a condition on documents of the library.")
    return None


def _conditions(arguments: LibraryRequest, view: DocumentView | None) -> dict[str, Any]:
    """Return the conditions of a search in the library."""
    return {
        "where": [] if arguments.where is None else [arguments.where],
        "path": arguments.path,
        "section": arguments.section,
        "document": None if view is None or view.id is None else library_number(view.id),
    }


def _section_scores(
    library: "Library", arguments: LibraryRequest, view: DocumentView | None
) -> list[float] | None:
    """Return how well each section of a document of the library matches."""
    if view is None:
        return None
    scores = [0.0] * len(view.sections)
    conditions = _conditions(arguments, view)
    for hit in library.search(arguments.query, "section", len(scores), **conditions):
        scores[view.section_idx(hit.span)] = hit.score
    return _rounded(scores)


def _hit(
    view: DocumentView,
    span: Span,
    best: int,
    section_idx: int | None,
    score: float,
    likely: bool | None,
    context: int,
) -> HitModel:
    before, after = view.around(range(best, best + 1), context)
    return HitModel(
        document=view.id,
        name=view.document.name,
        title=view.document.title,
        span=SpanModel.from_span(span),
        sentence_idx=best,
        section_idx=section_idx,
        best=SpanModel.from_span(view.spans[best]),
        score=round(score, 4),
        likely=likely,
        before=before,
        after=after,
    )


def _passage(view: DocumentView, passage: Passage, context: int) -> PassageModel:
    inside = view.sentences_of(passage.span)
    best = view.sentence_idx(passage.best.start)
    before, after = view.around(inside, context)
    return PassageModel(
        document=view.id,
        name=view.document.name,
        title=view.document.title,
        span=SpanModel.from_span(passage.span),
        first_sentence=inside.start,
        num_sentences=len(inside),
        sentence_idx=best,
        section_idx=view.places[best].section_idx,
        best=SpanModel.from_span(passage.best),
        score=round(passage.score, 4),
        likely=passage.likely,
        before=before,
        after=after,
    )


def _rounded(scores: list[float]) -> list[float]:
    return [round(score, 4) for score in scores]
