"""Checkpoints: whether they exist, and their files beside the weights."""

import json
from difflib import get_close_matches
from os import PathLike
from pathlib import Path
from typing import Any

_SECONDS_TO_ANSWER = 3.0
"""How long to wait for the hub."""


def check_name_or_path(name_or_path: str | PathLike[str]) -> None:
    """Reject what is neither a folder nor the name of a model on the hub.

    A name that was never downloaded is looked up once, without repeating a request that fails.

    Raises:
        OSError: There is no such folder, and no such model; or the hub did not answer.
        TypeError: `name_or_path` is neither a name nor a path.
    """
    if not isinstance(name_or_path, str | PathLike):
        kind = type(name_or_path).__name__
        raise TypeError(f"expected the name or path of a checkpoint, got {kind}")
    path = Path(name_or_path)
    if path.is_file():
        raise OSError(f"{path} is a file: name the folder of the checkpoint, {path.parent}")
    if path.exists():
        return
    from huggingface_hub import (  # takes a moment
        errors,
        get_hf_file_metadata,
        hf_hub_url,
        try_to_load_from_cache,
    )

    missing = f"there is no folder {name_or_path}{_similar_folder(path)}"
    name = str(name_or_path)
    try:
        if isinstance(try_to_load_from_cache(name, "config.json"), str):
            return
    except errors.HFValidationError as error:  # a path, because names have at most one slash
        raise OSError(missing) from error
    try:
        get_hf_file_metadata(hf_hub_url(name, "config.json"), timeout=_SECONDS_TO_ANSWER)
    except (errors.EntryNotFoundError, errors.GatedRepoError):
        return  # it exists; loading it says what is wrong
    except errors.RepositoryNotFoundError as error:
        raise OSError(f"{missing}, and the hub has no public model of that name") from error
    except Exception as error:  # no network, a proxy, offline mode: each has its own exception
        raise OSError(
            f"{missing}, and the hub could not be reached to look for a model of that name"
        ) from error


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


def _similar_folder(path: Path) -> str:
    """Propose the folder that was probably meant, if there is one."""
    if not path.parent.is_dir():
        return ""
    folders = [sibling.name for sibling in path.parent.iterdir() if sibling.is_dir()]
    matches = get_close_matches(path.name, folders, n=1, cutoff=0.8)
    return f" (did you mean {path.with_name(matches[0])}?)" if matches else ""
