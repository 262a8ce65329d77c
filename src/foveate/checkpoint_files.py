"""The files of a checkpoint beside its weights."""

import json
from os import PathLike
from pathlib import Path
from typing import Any


def checkpoint_file(name_or_path: str | PathLike[str], file_name: str) -> Path | None:
    """Return the path of a checkpoint's file, downloaded if necessary; None if there is none."""
    folder = Path(name_or_path)
    if folder.is_dir():
        file = folder / file_name
        return file if file.is_file() else None
    from transformers.utils.hub import cached_file  # takes seconds

    cached = cached_file(
        name_or_path,
        file_name,
        _raise_exceptions_for_missing_entries=False,
        _raise_exceptions_for_gated_repo=False,
        _raise_exceptions_for_connection_errors=False,
    )
    return None if cached is None else Path(cached)


def load_checkpoint_json(name_or_path: str | PathLike[str], file_name: str) -> Any:
    """Load a JSON file of a checkpoint; return None if it has no such file.

    Raises:
        ValueError: The file is damaged.
    """
    file = checkpoint_file(name_or_path, file_name)
    if file is None:
        return None
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(
            f"the {file_name} of {name_or_path} is damaged ({error}): copy or download it again"
        ) from error
