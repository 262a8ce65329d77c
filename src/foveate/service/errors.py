"""Refused requests, and the responses that say so."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from foveate.documents import DocumentError

OPENAI_PREFIX = "/v1/"

_KINDS = {401: "authentication_error", 429: "rate_limit_error", 503: "rate_limit_error"}


class Refusal(Exception):  # noqa: N818 (an answer rather than a failure)
    """A request that is refused.

    Attributes:
        status: The HTTP status.
        detail: Why, in a sentence.
        retry_after: Seconds after which to try again; None if there is no use in that.
        param: The argument that is wrong, for clients of OpenAI.
        code: What is wrong, for clients of OpenAI.
    """

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        retry_after: int | None = None,
        param: str | None = None,
        code: str | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.retry_after = retry_after
        self.param = param
        self.code = code


def refuse(path: str, refusal: Refusal) -> JSONResponse:
    """Return the response to a refused request, in the form that its clients expect."""
    status = refusal.status
    detail = refusal.detail.encode(errors="backslashreplace").decode()
    headers: dict[str, str] = {}
    if refusal.retry_after is not None:
        headers["Retry-After"] = str(refusal.retry_after)
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    content: dict[str, Any] = {"detail": detail}
    if path.startswith(OPENAI_PREFIX):
        kind = "invalid_request_error" if status < 500 else "server_error"
        status = 400 if status == 422 else status
        content = {
            "error": {
                "message": detail,
                "type": _KINDS.get(status, kind),
                "param": refusal.param,
                "code": refusal.code,
            }
        }
    return JSONResponse(content, status, headers)


def describe(errors: Iterable[Mapping[str, Any]], skip: int = 0) -> tuple[str, str | None]:
    """Put the errors of pydantic into a sentence, and name the first argument that is wrong.

    Args:
        errors: The errors.
        skip: Number of parts of each place that come before the argument's name.
    """
    sentences: dict[str, None] = {}
    first: str | None = None
    for error in errors:
        location = [str(part) for part in error["loc"][skip:]]
        message = re.sub(r"^(?:Value error|Assertion failed), ", "", str(error["msg"]))[:300]
        if error["type"] == "json_invalid":  # whose place is a character's, not an argument's
            location, message = [], f"Invalid JSON: {error['ctx']['error']}"
        name = ".".join(location)[:100]
        first = first or (location[0][:100] if location else None)
        sentences[f"{name}: {message}" if name else message[:1].upper() + message[1:]] = None
        if len(sentences) == 3:
            break
    return "; ".join(sentences) + ".", first


def add_handlers(app: FastAPI) -> None:
    """Respond to each error with a sentence."""

    @app.exception_handler(Refusal)
    async def refused(request: Request, error: Refusal) -> JSONResponse:
        return refuse(request.url.path, error)

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> JSONResponse:
        detail, param = describe(error.errors(), skip=1)  # "body" and the like
        status = 422
        if isinstance(error.body, bytes):  # which was not taken for JSON
            status, detail = 415, "Send JSON, with the header Content-Type: application/json."
        return refuse(request.url.path, Refusal(status, detail, param=param))

    @app.exception_handler(HTTPException)
    async def failed(request: Request, error: HTTPException) -> JSONResponse:
        details = {404: "There is nothing here.", 405: "This method is not allowed here."}
        answer = refuse(
            request.url.path,
            Refusal(error.status_code, details.get(error.status_code, str(error.detail))),
        )
        answer.headers.update(error.headers or {})
        return answer

    @app.exception_handler(DocumentError)
    async def wrong_document(request: Request, error: DocumentError) -> JSONResponse:
        return refuse(request.url.path, Refusal(422, str(error)))

    @app.exception_handler(Exception)
    async def broken(request: Request, error: Exception) -> JSONResponse:
        return refuse(request.url.path, Refusal(500, "The service failed, which is logged."))

    @app.exception_handler(MemoryError)
    async def too_large(request: Request, error: MemoryError) -> JSONResponse:
        detail = "There is not enough memory for this: send a shorter document."
        return refuse(request.url.path, Refusal(413, detail))
