"""Values from files, checked against annotations by pydantic."""

from functools import cache
from typing import Annotated, Any

from pydantic import BeforeValidator, TypeAdapter, ValidationError

Texts = Annotated[
    tuple[str, ...], BeforeValidator(lambda texts: [texts] if isinstance(texts, str) else texts)
]
"""In a file, a list or a single one."""


def validated(kind: Any, data: Any, where: str = "", *, strict: bool | None = None) -> Any:
    """Return data as a type, such as a dataclass that is built from a mapping.

    Args:
        kind: The type.
        data: The value, or the values of the fields.
        where: The section's name, for the message.
        strict: Whether to refuse what would have to be converted, such as "3" for a number.

    Raises:
        ValueError: The data does not fit; the message says where.
    """
    try:
        return _adapter(kind).validate_python(data, strict=strict)
    except ValidationError as error:
        first = error.errors()[0]
        place = ": ".join(filter(None, [where, *map(str, first["loc"])]))
        message = first["msg"].removeprefix("Value error, ")
        if first["type"] not in ("missing", "value_error"):
            message += f", got {first['input']!r}"
        raise ValueError(f"{place}: {message}" if place else message) from error


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)
