"""Vectors of texts, for clients of OpenAI's API."""

import base64
from functools import partial
from typing import Annotated, Any, Literal

import torch.nn.functional as F
from fastapi import APIRouter, Request
from pydantic import BaseModel, Field

from foveate.documents import DocumentError
from foveate.documents.decoding import check_characters
from foveate.service.errors import Refusal
from foveate.service.service import service_of

_MAX_INPUTS = 2048

Encoding = Literal["float", "base64"]
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
    encoding_format: Encoding = "float"
    dimensions: int | None = Field(
        None, ge=1, description="Length of the vectors; only the model's own can be had."
    )
    user: str | None = None


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
    if arguments.model != service.model_name:
        raise Refusal(
            404,
            f"There is no model of that name here: use {service.model_name!r}.",
            param="model",
            code="model_not_found",
        )
    if arguments.dimensions not in (None, service.encoder.dimension):
        raise Refusal(
            422,
            f"The vectors have {service.encoder.dimension} dimensions. The model was not trained "
            "for truncated ones: leave this out.",
            param="dimensions",
        )
    given = [arguments.input] if isinstance(arguments.input, str) else arguments.input
    texts = [_checked(one) for one in given]

    def compute() -> EmbeddingsResult:
        num_tokens = service.count_tokens(texts)
        vectors = F.normalize(service.encoder.encode_texts(texts), dim=-1).numpy()
        rows: list[Any] = vectors.tolist()
        if arguments.encoding_format == "base64":
            rows = [base64.b64encode(row.astype("<f4").tobytes()).decode() for row in vectors]
        return EmbeddingsResult(
            data=[Embedding(index=idx, embedding=row) for idx, row in enumerate(rows)],
            model=service.model_name,
            usage=Usage(prompt_tokens=num_tokens, total_tokens=num_tokens),
        )

    return await service.work.run(request, partial(service.work.call, compute))


def _checked(text: object) -> str:
    """Refuse token ids, texts without a word, and characters that tokenizers do not accept."""
    if not isinstance(text, str):
        raise Refusal(
            422,
            "Send text: token ids of other models mean nothing here. LangChain's OpenAIEmbeddings "
            "sends text with check_embedding_ctx_length=False.",
            param="input",
        )
    if not text.strip():
        raise Refusal(422, "A text is empty: leave it out.", param="input")
    try:
        check_characters(text)
    except DocumentError as error:
        raise Refusal(422, f"A text {error}", param="input") from error
    return text


@router.get("/models", summary="List the models")
async def list_models(request: Request) -> ModelList:
    """List the one model that there is."""
    return ModelList(data=[ModelInfo(id=service_of(request).model_name)])
