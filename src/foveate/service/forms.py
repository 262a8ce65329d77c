"""Forms with files (multipart/form-data), which are read in memory, never written to disk."""

from dataclasses import dataclass, field

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from foveate.service.errors import Refusal

_MAX_PARTS = 20


@dataclass(slots=True)
class Part:
    """A field of a form.

    Attributes:
        name: Its name.
        file_name: The name of the file that it is; None for a value.
        data: Its content.
    """

    name: str = ""
    file_name: str | None = None
    data: bytearray = field(default_factory=bytearray)

    @property
    def text(self) -> str:
        """The content of a value."""
        try:
            return self.data.decode()
        except UnicodeDecodeError as error:
            raise Refusal(422, f"{self.name[:100]}: this is not UTF-8.") from error


def parse(body: bytes, content_type: str) -> list[Part]:
    """Return the parts of a form.

    Raises:
        Refusal: It is malformed, or has too many parts.
    """
    _, options = parse_options_header(content_type)
    boundary = options.get(b"boundary")
    if not boundary:
        raise Refusal(422, "The form cannot be read: its type names no boundary.")
    reading = _Reading()
    try:
        parser = MultipartParser(
            boundary,
            {
                "on_part_begin": reading.begin,
                "on_header_field": reading.add_to_name,
                "on_header_value": reading.add_to_value,
                "on_header_end": reading.end_header,
                "on_headers_finished": reading.end_headers,
                "on_part_data": reading.add_data,
                "on_end": reading.end,
            },
        )
        parser.write(body)
        parser.finalize()
    except FormParserError as error:
        raise Refusal(422, "The form cannot be read: it is malformed.") from error
    if not reading.is_whole:
        raise Refusal(422, "The form cannot be read: its end is missing.")
    return reading.parts


class _Reading:
    """The form that is being read."""

    def __init__(self) -> None:
        self.parts: list[Part] = []
        self.is_whole = False
        self._name, self._value = bytearray(), bytearray()
        self._disposition = b""

    def begin(self) -> None:
        if len(self.parts) == _MAX_PARTS:
            raise Refusal(422, f"The form has more than {_MAX_PARTS} parts.")
        self.parts.append(Part())
        self._disposition = b""

    def add_to_name(self, data: bytes, start: int, end: int) -> None:
        self._name += data[start:end]

    def add_to_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def end_header(self) -> None:
        if self._name.lower() == b"content-disposition":
            self._disposition = bytes(self._value)
        self._name.clear()
        self._value.clear()

    def end_headers(self) -> None:
        _, options = parse_options_header(self._disposition)
        if b"name" not in options:
            raise Refusal(422, "The form cannot be read: a part of it has no name.")
        self.parts[-1].name = options[b"name"].decode(errors="replace")
        if b"filename" in options:
            self.parts[-1].file_name = options[b"filename"].decode(errors="replace")

    def add_data(self, data: bytes, start: int, end: int) -> None:
        self.parts[-1].data += data[start:end]

    def end(self) -> None:
        self.is_whole = True
