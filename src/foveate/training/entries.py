"""Entries of recipes: read from YAML, changed, checked against annotations, compared."""

import re
from collections.abc import Collection, Mapping
from dataclasses import MISSING, fields
from difflib import get_close_matches
from os import PathLike, fspath
from typing import Any, get_args

import yaml


class _Loader(yaml.SafeLoader):
    """Reads 5e-5 as a number, as YAML 1.2 does; to YAML 1.1 it is a text."""


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"[-+]?(\d+(\.\d*)?|\.\d+)[eE][-+]?\d+$"),
    list("-+.0123456789"),
)


def loaded(text: str) -> Any:
    """Read YAML.

    Raises:
        yaml.YAMLError: it is none.

    Example:
        >>> loaded("{learning_rate: 5e-5, steps: 10}")
        {'learning_rate': 5e-05, 'steps': 10}
    """
    return yaml.load(text, _Loader)


def mapping(data: Any, where: str) -> Mapping[str, Any]:
    """Return data that must consist of entries."""
    if not isinstance(data, Mapping):
        raise ValueError(f"{where} must consist of entries, got {data!r}")
    return data


def check(data: Mapping[str, Any], known: Collection[str], where: str) -> None:
    """Raise a ValueError at a name that is not known, with the one that may be meant."""
    for name in data:
        if name not in known:
            near = get_close_matches(str(name), known, 1)
            meant = f": did you mean {near[0]!r}?" if near else ""
            raise ValueError(f"{where + ': ' if where else ''}there is no {name!r}{meant}")


def made(kind: type, data: Mapping[str, Any], where: str) -> Any:
    """Make a dataclass, its values checked against its annotations."""
    entries = {entry.name: entry for entry in fields(kind)}
    check(data, entries, where)
    values = {}
    for name, entry in entries.items():
        if name in data:
            values[name] = value(data[name], entry.type, f"{where}: {name}")
        elif entry.default is MISSING and entry.default_factory is MISSING:
            raise ValueError(f"{where}: {name} is missing")
    try:
        return kind(**values)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from error


def value(data: Any, kind: Any, where: str) -> Any:
    """A value of the annotated type: texts may stand for lists of one, integers for numbers."""
    if kind == tuple[str, ...]:
        several = [data] if isinstance(data, str) else data
        if isinstance(several, list) and all(isinstance(one, str) for one in several):
            return tuple(several)
        raise ValueError(f"{where} must be a text or a list of texts, got {data!r}")
    kinds = get_args(kind) or (kind,)
    if type(data) is int and float in kinds and int not in kinds:
        return float(data)
    if not isinstance(data, kinds) or (type(data) is bool and bool not in kinds):
        names = [one.__name__ for one in kinds if one is not type(None)]
        names += ["null"] if type(None) in kinds else []
        raise ValueError(f"{where} must be of type {' or '.join(names)}, got {data!r}")
    return data


def change(data: Any, text: str) -> None:
    """Change an entry named by its path, such as `training.max_steps=10`."""
    path, equals, new = text.partition("=")
    *above, last = path.split(".")
    if not equals or not last:
        raise ValueError(f"a change is written entry.below=value, got {text!r}")
    for name in above:
        if not isinstance(data, dict):
            break
        data = data.setdefault(name, {})
    if not isinstance(data, dict):
        raise ValueError(f"{path} does not stand in the recipe")
    data[last] = loaded(new)


def plain(data: Any) -> Any:
    """Make what YAML can write of mappings, sequences and paths."""
    if isinstance(data, Mapping):
        return {name: plain(below) for name, below in data.items()}
    if isinstance(data, list | tuple):
        return [plain(below) for below in data]
    return fspath(data) if isinstance(data, PathLike) else data


def different(before: Any, now: Any, path: str = "") -> list[str]:
    """Paths of the entries in which two recipes differ.

    Example:
        >>> different({"batch": {"tokens": 8}, "tokenizer": 9}, {"batch": {"tokens": 6}})
        ['batch.tokens', 'tokenizer']
    """
    if isinstance(before, Mapping) and isinstance(now, Mapping):
        inside = f"{path}." if path else ""
        return [
            found
            for name in sorted({*before, *now})
            for found in different(before.get(name), now.get(name), f"{inside}{name}")
        ]
    return [] if before == now else [path]
