"""Embeddings and ranking, for clients written for the APIs of OpenAI, Voyage, Cohere and Jina."""

import base64
from collections.abc import Iterable
from functools import partial
from typing import Annotated, Any, Literal

import torch.nn.functional as F
from fastapi import APIRouter, Request
from pydantic import BaseModel, Field
from torch import Tensor

from foveate.documents import Document, DocumentError
from foveate.documents.decoding import check_characters
from foveate.integrations.chunks import encode_chunks
from foveate.service.errors import Refusal
from foveate.service.service import Service, service_of
from foveate.tasks.search import search

_MAX_INPUTS = 2048
_MAX_CHUNKS = 16_000
_MAX_RANKED = 1000

Format = Literal["float", "base64"]
Texts = Annotated[list[str], Field(min_length=1, max_length=_MAX_INPUTS)]
Tokens = Annotated[list[int], Field(min_length=1)]


class ErrorModel(BaseModel):
    """What is wrong with a request."""

    message: str
    type: str
    param: str | None
    code: str | None


class OpenAIProblem(BaseModel):
    """Why a request was refused, in the form of OpenAI."""

    error: ErrorModel


class EmbeddingsRequest(BaseModel):
    """Texts to embed, each by itself."""

    input: str | Texts | Tokens | Annotated[list[Tokens], Field(min_length=1)] = Field(
        description="A text, or up to 2,048 texts. Token ids are refused."
    )
    model: str = Field(description="Name of the model, see /v1/models.")
    encoding_format: Format = "float"
    dimensions: int | None = Field(
        None, ge=1, description="Length of the vectors; only the model's own can be had."
    )
    user: str | None = None


class ContextualRequest(BaseModel):
    """Documents in chunks; each chunk is embedded as a part of its document."""

    inputs: Annotated[
        list[Annotated[list[str], Field(min_length=1, max_length=_MAX_CHUNKS)]],
        Field(min_length=1, max_length=1000),
    ] = Field(description="The chunks of each document, in its order; or queries, each in a list.")
    model: str = Field(description="Name of the model, see /v1/models.")
    input_type: Literal["query", "document"] | None = None
    output_dimension: int | None = Field(
        None, ge=1, description="Length of the vectors; only the model's own can be had."
    )
    output_dtype: Literal["float"] = "float"
    encoding_format: Literal["base64"] | None = None


class Embedding(BaseModel):
    """A vector of unit length, as numbers or as the base64 of little-endian float32."""

    object: Literal["embedding"] = "embedding"
    index: int
    embedding: list[float] | str


class Usage(BaseModel):
    """How much was read."""

    prompt_tokens: int
    total_tokens: int


class EmbeddingsResult(BaseModel):
    """The vectors of texts, in their order."""

    object: Literal["list"] = "list"
    data: list[Embedding]
    model: str
    usage: Usage


class DocumentEmbeddings(BaseModel):
    """The vectors of a document's chunks, in their order."""

    object: Literal["list"] = "list"
    index: int
    data: list[Embedding]


class TotalUsage(BaseModel):
    """How much was read."""

    total_tokens: int


class ContextualResult(BaseModel):
    """The vectors of the chunks of documents, in their order."""

    object: Literal["list"] = "list"
    data: list[DocumentEmbeddings]
    model: str
    usage: TotalUsage


class RankedText(BaseModel):
    """A text to rank, or that was ranked."""

    text: str


class RerankRequest(BaseModel):
    """Texts to rank by how well they match a query."""

    model: str = Field(description="Name of the model, see /v1/models.")
    query: str
    documents: Annotated[list[str | RankedText], Field(min_length=1, max_length=_MAX_RANKED)] = (
        Field(description="Up to 1,000 texts.")
    )
    top_n: int | None = Field(None, ge=1, description="Number of results; by default all texts.")
    return_documents: bool = Field(False, description="Whether results have the texts.")


class RerankedText(BaseModel):
    """A text's place in the order."""

    index: int = Field(description="Its index among those sent.")
    relevance_score: float = Field(
        description="How well it matches: at most 1, or the score of the service's reranker."
    )
    document: RankedText | None = Field(None, description="The text, if it was asked for.")


class RerankResult(BaseModel):
    """Texts in the order of how well they match, best first."""

    model: str
    results: list[RerankedText]
    usage: TotalUsage


class ModelInfo(BaseModel):
    """A model."""

    id: str
    object: Literal["model"] = "model"
    created: int = 0
    owned_by: str = "foveate"


class ModelList(BaseModel):
    """The models that there are."""

    object: Literal["list"] = "list"
    data: list[ModelInfo]


_PROBLEM: dict[str, Any] = {"model": OpenAIProblem, "description": "The request is refused."}

router = APIRouter(prefix="/v1", tags=["embeddings"], responses={"4XX": _PROBLEM, "5XX": _PROBLEM})


@router.post("/embeddings", summary="Embed texts")
async def embed(request: Request, arguments: EmbeddingsRequest) -> EmbeddingsResult:
    """Embed texts, each by itself, as OpenAI's endpoint of this name does."""
    service = service_of(request)
    _check_model(service, arguments.model)
    _check_dimension(service, arguments.dimensions, "dimensions")
    texts = [arguments.input] if isinstance(arguments.input, str) else arguments.input
    if not all(isinstance(text, str) for text in texts):
        raise Refusal(
            422,
            "Send text: token ids of other models mean nothing here. LangChain's OpenAIEmbeddings "
            "sends text with check_embedding_ctx_length=False.",
            param="input",
        )
    texts = [text for text in texts if isinstance(text, str)]
    _check_texts(texts, "input")

    def compute() -> EmbeddingsResult:
        num_tokens = service.count_tokens(texts)
        vectors = service.encoder.encode_texts(texts)
        return EmbeddingsResult(
            data=_embeddings(vectors, arguments.encoding_format),
            model=service.model_name,
            usage=Usage(prompt_tokens=num_tokens, total_tokens=num_tokens),
        )

    return await service.work.run(request, partial(service.work.call, compute))


@router.post("/contextualizedembeddings", summary="Embed chunks")
async def embed_chunks(request: Request, arguments: ContextualRequest) -> ContextualResult:
    """Embed the chunks of documents, each as a part of its document, as Voyage's endpoint does.

    The model reads consecutive chunks together, so that a chunk's vector says what it is about even
    where the chunk itself does not. Queries are embedded by themselves,
    to be compared with the vectors of chunks.
    """
    service = service_of(request)
    _check_model(service, arguments.model)
    _check_dimension(service, arguments.output_dimension, "output_dimension")
    texts = [text for texts in arguments.inputs for text in texts]
    _check_texts(texts, "inputs")
    if arguments.input_type == "query" and any(len(texts) > 1 for texts in arguments.inputs):
        raise Refusal(422, "Give each query in a list of its own.", param="inputs")
    encoding = arguments.encoding_format or "float"

    def compute() -> ContextualResult:
        if arguments.input_type == "query":
            groups = list(service.encoder.encode_queries(texts).split(1))
        else:
            groups = encode_chunks(service.encoder, arguments.inputs)
        return ContextualResult(
            data=[
                DocumentEmbeddings(index=idx, data=_embeddings(vectors, encoding))
                for idx, vectors in enumerate(groups)
            ],
            model=service.model_name,
            usage=TotalUsage(total_tokens=service.count_tokens(texts)),
        )

    return await service.work.run(request, partial(service.work.call, compute))


@router.post("/rerank", summary="Rank texts", response_model_exclude_none=True)
async def rerank(request: Request, arguments: RerankRequest) -> RerankResult:
    """Rank texts by how well they match a query, as the endpoints of Cohere and Jina do.

    The reranker that the service was started with scores them. Without one, a text is scored like a
    document in a search: by its sentences, read in their context, and by its words.
    """
    service = service_of(request)
    _check_model(service, arguments.model)
    texts = [one if isinstance(one, str) else one.text for one in arguments.documents]
    _check_texts([arguments.query], "query")
    _check_texts(texts, "documents")

    def compute() -> RerankResult:
        scores = _scores(service, arguments.query, texts)
        best = sorted(range(len(texts)), key=lambda i: -scores[i])[: arguments.top_n]
        return RerankResult(
            model=service.model_name,
            results=[
                RerankedText(
                    index=idx,
                    relevance_score=round(scores[idx], 4),
                    document=RankedText(text=texts[idx]) if arguments.return_documents else None,
                )
                for idx in best
            ],
            usage=TotalUsage(total_tokens=service.count_tokens([arguments.query, *texts])),
        )

    return await service.work.run(request, partial(service.work.call, compute))


def _scores(service: Service, query: str, texts: list[str]) -> list[float]:
    """Score texts by how well they match a query."""
    if service.reranker is not None:
        from foveate.inference.reranker import score_texts

        return score_texts(service.reranker, query, texts)
    documents = [Document.from_text(text) for text in texts]
    try:
        hits = search(query, documents, by="document", top_k=len(texts), model=service.encoder)
    finally:
        for document in documents:
            service.encoder.forget(document)
    scores = {hit.document_idx: hit.score for hit in hits}
    return [scores[idx] for idx in range(len(texts))]


@router.get("/models", summary="List the models")
async def list_models(request: Request) -> ModelList:
    """List the one model that there is."""
    return ModelList(data=[ModelInfo(id=service_of(request).model_name)])


def _check_model(service: Service, model: str) -> None:
    """Refuse another model."""
    if model != service.model_name:
        raise Refusal(
            404,
            f"There is no model of that name here: use {service.model_name!r}.",
            param="model",
            code="model_not_found",
        )


def _check_dimension(service: Service, dimension: int | None, param: str) -> None:
    """Refuse vectors of another length."""
    if dimension not in (None, service.encoder.dimension):
        raise Refusal(
            422,
            f"The vectors have {service.encoder.dimension} dimensions. The model was not trained "
            "for truncated ones: leave this out.",
            param=param,
        )


def _check_texts(texts: Iterable[str], param: str) -> None:
    """Refuse texts without a word, and characters that tokenizers do not accept."""
    for text in texts:
        if not text.strip():
            raise Refusal(422, "A text is empty: leave it out.", param=param)
        try:
            check_characters(text)
        except DocumentError as error:
            raise Refusal(422, f"A text {error}", param=param) from error


def _embeddings(vectors: Tensor, encoding: Format) -> list[Embedding]:
    unit = F.normalize(vectors, dim=-1).numpy()
    if encoding == "base64":
        rows: list[Any] = [base64.b64encode(row.astype("<f4").tobytes()).decode() for row in unit]
    else:
        rows = unit.tolist()
    return [Embedding(index=idx, embedding=row) for idx, row in enumerate(rows)]
