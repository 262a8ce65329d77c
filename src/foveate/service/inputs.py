"""Documents that clients send: a file in a form, or text in JSON."""

import re
import sys
from email.header import decode_header, make_header
from urllib.parse import unquote

from pydantic import ValidationError
from python_multipart.exceptions import FormParserError
from starlette.datastructures import FormData, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import Request

from foveate.service.errors import Refusal, describe
from foveate.service.processes import Content
from foveate.service.schemas import FileRequest, TextRequest
from foveate.service.view import clean_name

_JSON, _FORM = "application/json", "multipart/form-data"
_MAX_FIELDS = 20

SCHEMA = {
    "requestBody": {
        "required": True,
        "content": {
            _JSON: {"schema": TextRequest.model_json_schema()},
            _FORM: {
                "schema": {
                    **FileRequest.model_json_schema(),
                    "properties": {
                        **FileRequest.model_json_schema()["properties"],
                        "file": {"type": "string", "format": "binary", "description": "A file."},
                    },
                    "required": ["file"],
                }
            },
        },
    }
}
"""The body of such a request, for the OpenAPI schema."""


async def parse(request: Request) -> Content:
    """Return the file or text that a request sends.

    Raises:
        Refusal: The body is of another kind, or its values are wrong.
    """
    header = request.headers.get("content-type", "")
    kind = header.partition(";")[0].strip().lower()
    try:
        if kind == _JSON:
            sent = TextRequest.model_validate_json(await request.body())
            return text_content(sent.text, sent)
        if kind == _FORM:
            return await _parse_form(request)
    except ValidationError as error:
        detail, _ = describe(error.errors(include_input=False, include_url=False))
        raise Refusal(422, detail) from error
    raise Refusal(415, f"Send {_JSON} or, with a file, {_FORM}.")


def text_content(text: str, options: FileRequest) -> Content:
    """Return a text as content to read."""
    return Content(text.encode(), None, options.format, options.title, options.language)


async def _parse_form(request: Request) -> Content:
    """Read a form in memory; it is never written to disk."""
    if not (await request.body()).rstrip().endswith(b"--"):
        raise Refusal(422, "The form cannot be read: its end is missing.")
    parser = _FormParser(
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
        return await _read_form(form)
    finally:
        await form.close()


class _FormParser(MultiPartParser):
    """A parser of forms that knows names of files as in RFC 5987, which some clients send."""

    def on_headers_finished(self) -> None:
        part = self._current_part
        written = (part.content_disposition or b"").decode("latin-1")
        if name := re.search(r"filename\*=([\w-]+)'[^']*'([^;]+)", written):
            decoded = unquote(name[2], name[1]).replace("\\", "/").replace('"', "'")
            part.content_disposition = (
                re.sub(r"; *filename\*?=(\"[^\"]*\"|[^;]*)", "", written).encode("latin-1")
                + f'; filename="{decoded}"'.encode()
            )
        super().on_headers_finished()


async def _read_form(form: FormData) -> Content:
    fields = dict(form)
    if len(fields) < len(form.multi_items()):
        raise Refusal(422, "A field of the form is given more than once.")
    file = fields.pop("file", None)
    if not isinstance(file, UploadFile):
        raise Refusal(422, "The form needs a file that is called file, and has a name.")
    options = FileRequest.model_validate(fields)
    name = clean_name(str(make_header(decode_header(file.filename or ""))))
    return Content(await file.read(), name, options.format, options.title, options.language)
