"""Defaults of options, from `foveate.toml`, `pyproject.toml` and environment variables."""

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from platformdirs import user_config_path

NAMES = ("model", "library", "device", "llm", "llm-model")
"""The options that can be set."""

_ONLY_BY_THE_USER = ("llm", "llm-model")


class Setting(NamedTuple):
    """A default, and where it was found."""

    value: str
    source: str


def user_file() -> Path:
    """Return the file of the user's settings, which need not exist."""
    return user_config_path("foveate") / "foveate.toml"


def settings() -> dict[str, Setting]:
    """Find the defaults of options.

    Those of the project come before those of the user: of the nearest folder, from the current one
    upwards, with a `foveate.toml`, or a `pyproject.toml` that has a table `tool.foveate`.
    Environment variables such as FOVEATE_MODEL come before both.

    Raises:
        ValueError: A file is not TOML, or sets what cannot be set.
    """
    found = _read(user_file()) or {}
    for folder in (Path.cwd(), *Path.cwd().parents):
        own = _read(folder / "foveate.toml")
        if own is None:
            own = _read(folder / "pyproject.toml", "tool", "foveate")
        if own is not None:
            for name in _ONLY_BY_THE_USER:
                if name in own:
                    raise ValueError(
                        f"{own[name].source} sets {name}, and a folder does not decide where "
                        f"documents are sent: set it in {user_file()} or FOVEATE_LLM"
                    )
            found |= own
            break
    for name in NAMES:
        variable = f"FOVEATE_{name.upper().replace('-', '_')}"
        if value := os.environ.get(variable):
            found[name] = Setting(value, variable)
    return found


def defaults(commands: Mapping[str, Any], found: Mapping[str, Setting]) -> dict[str, Any]:
    """Return the defaults of the commands' parameters, as click takes them.

    Args:
        commands: The commands. A group and `evaluate`, whose model is one that was trained, have
            no defaults.
        found: The settings.
    """
    return {
        name: {
            one.name: found[option].value
            for one in command.params
            for option in found
            if f"--{option}" in one.opts
        }
        for name, command in commands.items()
        if name != "evaluate"
    }


def _read(file: Path, *tables: str) -> dict[str, Setting] | None:
    """Read the settings in a table of a file; None if there is no such file or table."""
    try:
        values: Any = tomllib.loads(file.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return None
    except ValueError as error:
        raise ValueError(f"{file} is not TOML: {error}") from error
    for table in tables:
        values = values.get(table)
        if values is None:
            return None
    for name, value in values.items():
        if name not in NAMES or not isinstance(value, str):
            raise ValueError(
                f"{file} sets {name} to {value!r}: it can set {', '.join(NAMES)}, each a string"
            )
    return {
        name: Setting(_resolved(name, value, file.parent), str(file))
        for name, value in values.items()
    }


def _resolved(name: str, value: str, folder: Path) -> str:
    """Return a value in which a path is relative to the folder of the file that sets it."""
    path = folder / Path(value).expanduser()
    is_path = name == "library" or (name == "model" and path.exists())
    return str(path) if is_path else value
