"""Routes for tasks on documents: search, ask, context, write, summarize, keywords."""

import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from fastapi import APIRouter, Request
from fastapi.responses import StreamingResponse

from foveate.documents import Span
from foveate.inference import LLM
from foveate.service.errors import Refusal
from foveate.service.inputs import text_content
from foveate.service.schemas import (
    AskRequest,
    AskResult,
    ContextRequest,
    ContextResult,
    ContextSentenceModel,
    HitModel,
    KeywordModel,
    KeywordPlace,
    KeywordsRequest,
    KeywordsResult,
    LibraryRequest,
    QueryRequest,
    SearchRequest,
    SearchResult,
    SummarizeRequest,
    SummaryResult,
    SummarySentenceModel,
    TaskRequest,
    WriteRequest,
)
from foveate.service.service import Service, service_of
from foveate.service.view import DocumentView, library_id, library_number
from foveate.tasks.arguments import Unit
from foveate.tasks.citations import check
from foveate.tasks.context import Prompt, context
from foveate.tasks.explain import check_tokens
from foveate.tasks.hits import Hit
from foveate.tasks.keywords import keywords
from foveate.tasks.rerank import check_rerank
from foveate.tasks.search import best_hits, score
from foveate.tasks.summarize import extract
from foveate.tasks.surroundings import completed
from foveate.tasks.write import answer_request, summary_prompts, summary_request

if TYPE_CHECKING:
    from foveate.service.library import ServedLibrary

Arguments = TypeVar("Arguments", bound=TaskRequest)
Result = TypeVar("Result")

router = APIRouter(tags=["tasks"])


class _WritingTask(NamedTuple):
    """What a language model is asked about a part of a document, and what it is shown."""

    title: str
    prompt: Prompt
    instructions: str
    request: str
    view: DocumentView | None


@router.post("/search", summary="Search")
async def search(request: Request, arguments: SearchRequest) -> SearchResult:
    """Find what matches a query best, in a document or in the library.

    For one document, the answer also says how well each of its sections matches.
    """
    return await _answer(request, arguments, _search)


@router.post("/ask", summary="Ask")
async def ask(request: Request, arguments: AskRequest) -> AskResult:
    """Find the passages that answer a question, in a document or in the library."""
    return await _answer(request, arguments, _ask)


@router.post("/context", summary="Make a prompt")
async def make_context(request: Request, arguments: ContextRequest) -> ContextResult:
    """Show a document or the library to a language model, within a budget of tokens."""
    return await _answer(request, arguments, _context)


@router.post(
    "/write",
    summary="Write",
    response_class=StreamingResponse,
    responses={200: {"content": {"application/x-ndjson": {}}}},
)
async def write(request: Request, arguments: WriteRequest) -> StreamingResponse:
    """Have the language model that the service was started with answer, or write a summary.

    The answer is lines of JSON, as they come. Each part begins with its `title`, empty except in a
    summary section by section, and the sentences of the document that the model is `shown`; pieces
    of its `text` follow; then `written`, the whole text, with its `sentences` and the places that
    they have `cited`. A line with `detail` says what failed.
    """
    service = service_of(request)
    llm = service.llm
    if llm is None:
        raise Refusal(422, "This service has no language model: start it with --llm.")
    requests = await _answer(request, arguments, _requests)
    lines = _written(service, llm, requests)

    async def stream() -> AsyncIterator[str]:
        while (line := await service.work.call(next, lines, None)) is not None:
            yield line

    return StreamingResponse(stream(), media_type="application/x-ndjson")


@router.post("/summarize", summary="Summarize")
async def summarize_document(request: Request, arguments: SummarizeRequest) -> SummaryResult:
    """Summarize a document by its most central sentences."""
    return await _answer(request, arguments, _summarize)


@router.post("/keywords", summary="Find keywords")
async def find_keywords(request: Request, arguments: KeywordsRequest) -> KeywordsResult:
    """Find the words and phrases that characterize a document."""
    return await _answer(request, arguments, _keywords)


async def _answer(
    request: Request,
    arguments: Arguments,
    function: Callable[[Service, Arguments, DocumentView | None], Result],
) -> Result:
    """Answer a question about the document that a request names or brings.

    Args:
        request: The request.
        arguments: Its arguments.
        function: Computes the answer, in a thread. It gets no document if the request has none.
    """
    service = service_of(request)

    async def answer() -> Result:
        if arguments.text is None:
            view = None if arguments.document is None else await service.find(arguments.document)
            return await service.work.call(_checked, function, service, arguments, view)
        view = await service.read(text_content(arguments.text, arguments), None)
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


def _given(view: DocumentView | None) -> DocumentView:
    """Refuse requests without a document."""
    if view is None:
        raise Refusal(422, "Give a document or a text.")
    return view


def _search(service: Service, arguments: SearchRequest, view: DocumentView | None) -> SearchResult:
    hits, section_scores = _find(service, arguments, view, arguments.by)
    return SearchResult(hits=hits, section_scores=section_scores)


def _ask(service: Service, arguments: AskRequest, view: DocumentView | None) -> AskResult:
    passages, section_scores = _find(service, arguments, view, "passage")
    return AskResult(question=arguments.query, passages=passages, section_scores=section_scores)


def _find(
    service: Service, arguments: SearchRequest | AskRequest, view: DocumentView | None, by: Unit
) -> tuple[list[HitModel], list[float] | None]:
    """Search a document or the library, and score the sections of a document."""
    reranker = service.reranker if arguments.rerank else None
    if arguments.rerank and reranker is None:
        raise Refusal(422, "This service has no reranker: start it with --rerank.")
    if reranker is not None:
        check_rerank(by)
    if arguments.explain:
        check_tokens(service.encoder)
    library = _library(service, arguments, view)
    query, top_k, conditions = arguments.query, arguments.top_k, _conditions(arguments, view)
    explain = arguments.explain
    if library is not None:
        found = library.search(
            query,
            by,
            top_k,
            rerank=reranker,
            explain=explain,
            context=arguments.context,
            **conditions,
        )
        hits = [_hit(one, library_id(one.document_idx)) for one in found]
        return hits, _section_scores(library, arguments, view)
    assert view is not None
    [scores] = score(query, [view.document], service.encoder)
    documents, encoder = [view.document], service.encoder
    found = best_hits(query, [scores], documents, by, top_k, encoder, reranker, explain=explain)
    hits = [_hit(one, view.id) for one in completed(found, documents, arguments.context)]
    return hits, _rounded(scores.sections.tolist())


def _context(
    service: Service, arguments: ContextRequest, view: DocumentView | None
) -> ContextResult:
    prompt = _prompt(service, arguments, view)
    return ContextResult(
        text=prompt.text,
        tokens=prompt.tokens,
        sentences=_numbered(prompt, prompt.spans, view),
    )


def _prompt(service: Service, arguments: ContextRequest, view: DocumentView | None) -> Prompt:
    library = _library(service, arguments, view)
    if library is not None:
        return library.context(arguments.query, arguments.tokens, **_conditions(arguments, view))
    assert view is not None
    return context(
        arguments.query,
        view.document,
        tokens=arguments.tokens,
        model=service.encoder,
        thorough=True,
    )


def _numbered(
    prompt: Prompt, spans: Mapping[int, Span], view: DocumentView | None
) -> list[ContextSentenceModel]:
    """Return the places of sentences of a prompt, of a document or of the library."""
    return [
        ContextSentenceModel(
            number=number,
            document=library_id(prompt.document_idx[number]) if view is None else view.id,
            sentence_idx=prompt.sentence_idx[number],
            span=span,
        )
        for number, span in spans.items()
    ]


def _requests(
    service: Service, arguments: WriteRequest, view: DocumentView | None
) -> list[_WritingTask]:
    """Return what the language model is asked: an answer or, without a query, a summary."""
    if arguments.query is not None:
        prompt = _prompt(service, arguments, view)
        return [_WritingTask("", prompt, *answer_request(arguments.query, prompt), view)]
    if view is None:
        raise Refusal(422, "Give a question, or a document to summarize.")
    vectors = service.encoder.encode(view.document)
    prompts = summary_prompts(view.document, vectors, service.encoder, None, arguments.tokens)
    return [
        _WritingTask(title, prompt, *summary_request(prompt, None, arguments.sentences), view)
        for title, prompt in prompts
    ]


def _written(service: Service, llm: LLM, requests: Sequence[_WritingTask]) -> Iterator[str]:
    """Yield the lines of `write`: what the model writes, as it comes, and what it cites."""
    try:
        for title, prompt, instructions, request, view in requests:
            shown = [] if view is None else [*prompt.sentence_idx.values()]
            yield _line(title=title, shown=shown)
            pieces = []
            for piece in llm.stream(instructions, request):
                pieces.append(piece)
                yield _line(text=piece)
            written = check("".join(pieces), prompt.spans, service.encoder)
            yield _line(
                written=written.text,
                sentences=[
                    {**asdict(one), "is_supported": one.is_supported} for one in written.sentences
                ],
                cited=[one.model_dump() for one in _numbered(prompt, written.spans, view)],
            )
    except (OSError, ImportError) as error:
        yield _line(detail=str(error))


def _line(**fields: Any) -> str:
    return f"{json.dumps(fields, ensure_ascii=False)}\n"


def _summarize(
    service: Service, arguments: SummarizeRequest, view: DocumentView | None
) -> SummaryResult:
    view = _given(view)
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
    sentences = [
        SummarySentenceModel(
            span=hit.span,
            sentence_idx=hit.inside.start,
            section_idx=hit.sentences[0].section_idx,
            score=round(hit.score, 4),
        )
        for hit in summary.sentences
    ]
    return SummaryResult(text=summary.text, sentences=sentences)


def _keywords(
    service: Service, arguments: KeywordsRequest, view: DocumentView | None
) -> KeywordsResult:
    view = _given(view)
    found = keywords(view.document, top_k=arguments.top_k, method=arguments.method)
    return KeywordsResult(
        keywords=[
            KeywordModel(
                text=keyword.text,
                score=float(f"{keyword.score:.4g}"),
                num_places=len(keyword.spans),
                places=[
                    KeywordPlace(span=span, sentence_idx=view.sentence_idx(span.start))
                    for span in keyword.spans[: arguments.places]
                ],
            )
            for keyword in found
        ]
    )


def _library(
    service: Service, arguments: LibraryRequest, view: DocumentView | None
) -> "ServedLibrary | None":
    """Return the library, if it is what is searched."""
    if view is None:
        if service.library is None:
            raise Refusal(422, "Give a document or a text: this service has no library.")
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
    library: "ServedLibrary", arguments: QueryRequest, view: DocumentView | None
) -> list[float] | None:
    """Return how well each section of a document of the library matches."""
    if view is None:
        return None
    scores = [0.0] * len(view.sections)
    conditions = _conditions(arguments, view)
    for hit in library.search(arguments.query, "section", len(scores), **conditions):
        assert hit.section_idx is not None
        scores[hit.section_idx] = hit.score
    return _rounded(scores)


def _hit(hit: Hit, document: str | None) -> HitModel:
    return HitModel(
        document=document,
        name=hit.span.document,
        title=hit.title,
        span=hit.span,
        first_sentence=hit.inside.start,
        num_sentences=len(hit.inside),
        sentence_idx=hit.best_idx,
        section_idx=hit.section_idx,
        best=hit.best,
        score=round(hit.score, 4),
        likely=hit.likely,
        matches=hit.matches,
        before=hit.before,
        after=hit.after,
    )


def _rounded(scores: list[float]) -> list[float]:
    return [round(score, 4) for score in scores]
