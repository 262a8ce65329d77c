"""Check that a checkpoint exists, before anything is loaded from it."""

from difflib import get_close_matches
from os import PathLike
from pathlib import Path

from huggingface_hub import get_hf_file_metadata, hf_hub_url, try_to_load_from_cache
from huggingface_hub.errors import (
    EntryNotFoundError,
    GatedRepoError,
    HFValidationError,
    RepositoryNotFoundError,
)

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
    missing = f"there is no folder {name_or_path}{_similar_folder(path)}"
    name = str(name_or_path)
    try:
        if isinstance(try_to_load_from_cache(name, "config.json"), str):
            return
    except HFValidationError as error:  # a path, because names have at most one slash
        raise OSError(missing) from error
    try:
        get_hf_file_metadata(hf_hub_url(name, "config.json"), timeout=_SECONDS_TO_ANSWER)
    except (EntryNotFoundError, GatedRepoError):
        return  # it exists; loading it says what is wrong
    except RepositoryNotFoundError as error:
        raise OSError(f"{missing}, and the hub has no public model of that name") from error
    except Exception as error:  # no network, a proxy, offline mode: each has its own exception
        raise OSError(
            f"{missing}, and the hub could not be reached to look for a model of that name"
        ) from error


def _similar_folder(path: Path) -> str:
    """Propose the folder that was probably meant, if there is one."""
    if not path.parent.is_dir():
        return ""
    folders = [sibling.name for sibling in path.parent.iterdir() if sibling.is_dir()]
    matches = get_close_matches(path.name, folders, n=1, cutoff=0.8)
    return f" (did you mean {path.with_name(matches[0])}?)" if matches else ""
