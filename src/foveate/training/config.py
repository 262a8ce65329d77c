"""Settings as plain data: read from YAML, overridden, checked."""

import re
from collections.abc import Collection, Mapping
from difflib import get_close_matches
from typing import Any

import yaml


class _Loader(yaml.SafeLoader):  # type: ignore[misc]  # PyYAML has no type hints
    """Reads 5e-5 as a number and no as a text, as YAML 1.2 does; YAML 1.1 does not."""

    yaml_implicit_resolvers = {  # noqa: RUF012  (by the first character)
        first: [pair for pair in resolvers if not pair[0].endswith("bool") or first in "tTfF"]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


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


def check_names(data: Mapping[str, Any], known: Collection[str], where: str) -> None:
    """Check that all names are known.

    Raises:
        ValueError: A name is unknown; the message suggests a similar one.
    """
    for name in data:
        if name not in known:
            similar = get_close_matches(str(name), known, 1)
            suggestion = f": did you mean {similar[0]!r}?" if similar else ""
            raise ValueError(f"{where}: unknown entry {name!r}{suggestion}")
