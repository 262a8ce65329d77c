"""Requests whose body is JSON or, with a file, a form."""

from collections.abc import AsyncIterator
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import Request

from foveate.service.errors import Refusal, describe
from foveate.service.processes import Content
from foveate.service.view import clean_name

Model = TypeVar("Model", bound=BaseModel)

_JSON, _FORM = "application/json", "multipart/form-data"
_CHUNK = 2**20
_MAX_FIELDS = 20


async def parse(request: Request, model: type[Model]) -> tuple[Model, Content | None]:
    """Validate the body of a request, and return the file that it has, if any.

    Raises:
        Refusal: The body is of another kind, or its values are wrong.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    try:
        if kind == _JSON:
            return model.model_validate_json(await request.body(), strict=True), None
        if kind == _FORM:
            return await _parse_form(request, model)
    except ValidationError as error:
        detail, _ = describe(error.errors(include_input=False, include_url=False))
        raise Refusal(422, detail) from error
    raise Refusal(415, f"Send {_JSON} or, with a file, {_FORM}.")


async def _parse_form(request: Request, model: type[Model]) -> tuple[Model, Content | None]:
    body = await request.body()

    async def chunks() -> AsyncIterator[bytes]:
        for start in range(0, len(body), _CHUNK):
            yield body[start : start + _CHUNK]

    parser = MultiPartParser(
        request.headers,
        chunks(),  # type: ignore[arg-type] # any iterator does
        max_files=1,
        max_fields=_MAX_FIELDS,
        max_part_size=len(body),
    )
    parser.spool_max_size = len(body) + 1  # in memory: nothing that is sent is written to a disk
    try:
        form = await parser.parse()
    except MultiPartException as error:
        raise Refusal(422, f"The form cannot be read: {error.message}") from error
    items = [
        (name, value if isinstance(value, str) else (value.filename, await value.read()))
        for name, value in form.multi_items()
    ]
    await form.close()
    fields: dict[str, Any] = {}
    file: tuple[str | None, bytes] | None = None
    for name, value in items:
        if name in fields or (name == "file" and file is not None):
            raise Refusal(422, f"{name[:100]}: given more than once.")
        if isinstance(value, str):
            fields[name] = value
        elif name == "file":
            file = value
        else:
            raise Refusal(422, "The form's file must be called file.")
    if "file" in fields:
        raise Refusal(422, "file: give a file with a name.")
    if file is not None and ("text" in fields or "document" in fields):
        raise Refusal(422, "Give either a file, a text or a document.")
    arguments = model.model_validate(fields)
    if file is None:
        return arguments, None
    return arguments, Content(file[1], clean_name(file[0] or ""), *_options(arguments))


def text_content(text: str, arguments: BaseModel) -> Content:
    """Return the text of a request as what is to be read."""
    return Content(text.encode(), None, *_options(arguments))


def _options(arguments: BaseModel) -> list[str | None]:
    return [getattr(arguments, name) for name in ("format", "title", "language")]


def body_schema(json: type[BaseModel], form: type[BaseModel], *, has_file: bool) -> dict[str, Any]:
    """Describe a body for the OpenAPI schema: JSON, or a form with a file.

    Args:
        json: The values in JSON.
        form: Those in the form besides the file.
        has_file: Whether the form must have a file.
    """
    in_form = form.model_json_schema()
    for name in ("document", "text"):
        in_form["properties"].pop(name, None)
    in_form["properties"]["file"] = {"type": "string", "format": "binary", "description": "A file."}
    if has_file:
        in_form["required"] = [*in_form.get("required", []), "file"]
    content = {_JSON: {"schema": json.model_json_schema()}, _FORM: {"schema": in_form}}
    return {"requestBody": {"required": True, "content": content}}
