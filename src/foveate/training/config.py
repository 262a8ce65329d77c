"""Settings as plain data: read from YAML, overridden, checked against annotations."""

import re
from collections.abc import Collection, Mapping
from dataclasses import MISSING, fields
from difflib import get_close_matches
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, TypeVar, get_args

import yaml

from foveate.data.records import check_texts

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    D = TypeVar("D", bound=DataclassInstance)


class _Loader(yaml.SafeLoader):  # type: ignore[misc]  # PyYAML has no type hints
    """Reads 5e-5 as a number, as YAML 1.2 does; YAML 1.1 reads it as a string."""


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"[-+]?(\d+(\.\d*)?|\.\d+)[eE][-+]?\d+$"),
    list("-+.0123456789"),
)


def load_yaml(text: str) -> Any:
    """Parse YAML.

    Raises:
        yaml.YAMLError: The text is not valid YAML.

    Example:
        >>> load_yaml("{learning_rate: 5e-5, steps: 10}")
        {'learning_rate': 5e-05, 'steps': 10}
    """
    return yaml.load(text, _Loader)


def apply_override(data: Any, override: str) -> None:
    """Set one entry, named by its path, in place.

    Args:
        data: Nested mappings, as `load_yaml` returns them.
        override: The path and the new value as YAML, such as `training.max_steps=10`.

    Raises:
        ValueError: The override has another form, or its path leads through a value.
        yaml.YAMLError: The value is not valid YAML.
    """
    path, equals, value = override.partition("=")
    *parents, name = path.split(".")
    if not equals or not name:
        raise ValueError(f"an override has the form section.entry=value, got {override!r}")
    for parent in parents:
        if not isinstance(data, dict):
            break
        data = data.setdefault(parent, {})
    if not isinstance(data, dict):
        raise ValueError(f"the recipe has no entry {path}")
    data[name] = load_yaml(value)


def build(kind: "type[D]", data: Mapping[str, Any], where: str) -> "D":
    """Build a dataclass from a mapping, checking every value against its annotation.

    Args:
        kind: The dataclass.
        data: The values of its fields.
        where: The section's name, for error messages.

    Raises:
        ValueError: An entry is unknown, missing or invalid; the message says which.
    """
    known = {field.name: field for field in fields(kind)}
    check_names(data, known, where)
    values = {}
    for name, field in known.items():
        if name in data:
            values[name] = check_type(data[name], field.type, f"{where}: {name}")
        elif field.default is MISSING and field.default_factory is MISSING:
            raise ValueError(f"{where}: {name} is missing")
    try:
        return kind(**values)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from error


def check_mapping(data: Any, where: str) -> Mapping[str, Any]:
    """Return `data` if it is a mapping.

    Raises:
        ValueError: It is something else.
    """
    if not isinstance(data, Mapping):
        raise ValueError(f"{where} must be a mapping, got {data!r}")
    return data


def check_names(data: Mapping[str, Any], known: Collection[str], where: str) -> None:
    """Check that all names are known.

    Raises:
        ValueError: A name is unknown; the message suggests a similar one.
    """
    for name in data:
        if name not in known:
            similar = get_close_matches(str(name), known, 1)
            suggestion = f": did you mean {similar[0]!r}?" if similar else ""
            raise ValueError(f"{f'{where}: ' if where else ''}unknown entry {name!r}{suggestion}")


def check_type(value: Any, kind: Any, where: str) -> Any:
    """Return a value if it has the annotated type, converted where YAML allows a shorthand.

    A string stands for a tuple with one string, and an integer for a float.

    Raises:
        ValueError: The value has another type.
    """
    if kind == tuple[str, ...]:
        return check_texts(value, where)
    kinds = get_args(kind) or (kind,)
    if type(value) is int and float in kinds and int not in kinds:
        return float(value)
    if not isinstance(value, kinds) or (type(value) is bool and bool not in kinds):
        names = [kind.__name__ for kind in kinds if kind is not type(None)]
        names += ["null"] if type(None) in kinds else []
        raise ValueError(f"{where} must be of type {' or '.join(names)}, got {value!r}")
    return value


def to_yaml_types(data: Any) -> Any:
    """Convert mappings, sequences and paths to types that YAML can write."""
    if isinstance(data, Mapping):
        return {name: to_yaml_types(value) for name, value in data.items()}
    if isinstance(data, list | tuple):
        return [to_yaml_types(value) for value in data]
    return fspath(data) if isinstance(data, PathLike) else data
