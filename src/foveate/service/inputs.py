"""Requests whose body is JSON or, with a file, a form."""

import sys
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from python_multipart.exceptions import FormParserError
from starlette.datastructures import FormData, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import Request

from foveate.service.errors import Refusal, describe
from foveate.service.processes import Content
from foveate.service.view import clean_name

Model = TypeVar("Model", bound=BaseModel)

_JSON, _FORM = "application/json", "multipart/form-data"
_MAX_FIELDS = 20


async def parse(request: Request, model: type[Model]) -> tuple[Model, Content | None]:
    """Validate the body of a request, and return the file that it has, if any.

    Raises:
        Refusal: The body is of another kind, or its values are wrong.
    """
    header = request.headers.get("content-type", "")
    kind = header.partition(";")[0].strip().lower()
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
    """Validate a form, which is read in memory and never written to disk."""
    if not (await request.body()).rstrip().endswith(b"--"):
        raise Refusal(422, "The form cannot be read: its end is missing.")
    parser = MultiPartParser(
        request.headers,
        request.stream(),
        max_files=1,
        max_fields=_MAX_FIELDS,
        max_part_size=sys.maxsize,  # the whole body is bounded
    )
    parser.spool_max_size = sys.maxsize
    try:
        form = await parser.parse()
    except (MultiPartException, FormParserError) as error:
        raise Refusal(422, f"The form cannot be read: {error}") from error
    try:
        return await _read_form(form, model)
    finally:
        await form.close()


async def _read_form(form: FormData, model: type[Model]) -> tuple[Model, Content | None]:
    fields: dict[str, Any] = {}
    for name, value in form.multi_items():
        if name in fields:
            raise Refusal(422, f"{name[:100]}: given more than once.")
        if isinstance(value, UploadFile) != (name == "file"):
            raise Refusal(422, "The form's file must be called file, and have a name.")
        fields[name] = value
    file: UploadFile | None = fields.pop("file", None)
    if file is not None and ("text" in fields or "document" in fields):
        raise Refusal(422, "Give either a file, a text or a document.")
    arguments = model.model_validate(fields)
    if file is None:
        return arguments, None
    name = clean_name(file.filename or "")
    return arguments, Content(await file.read(), name, **_options(arguments))


def text_content(text: str, arguments: BaseModel) -> Content:
    """Return the text of a request as content to read."""
    return Content(text.encode(), **_options(arguments))


def _options(arguments: BaseModel) -> dict[str, str | None]:
    return {name: getattr(arguments, name) for name in ("format", "title", "language")}


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
