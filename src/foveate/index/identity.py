"""Identification of the model that made a library's vectors."""

import hashlib
from dataclasses import replace
from functools import cache
from pathlib import Path

from huggingface_hub import try_to_load_from_cache
from huggingface_hub.errors import HFValidationError

from foveate.index.store import ModelRecord
from foveate.inference import Encoder, default_model_path

_WEIGHTS = "*.safetensors"


def identify(encoder: Encoder) -> ModelRecord:
    """Return what identifies an encoder: the hash of the files that hold its weights.

    Weights that were never saved are hashed as they are in memory.
    """
    name = str(encoder.model.config._name_or_path)
    sha256 = _hash_checkpoint(name) or _hash_weights(encoder)
    return ModelRecord(_public_name(name), sha256, encoder.context, encoder.dimension)


def identify_checkpoint(name: str | None, recorded: ModelRecord) -> ModelRecord | None:
    """Return what identifies a checkpoint without loading it.

    Its context and its dimension, which do not follow from its weights alone, are taken from the
    record: whoever loads it later compares them with what `identify` returns.

    Args:
        name: Its folder, or its name on the hub; None for the default model.
        recorded: The model that made the library.

    Returns:
        The record; None if its weights are not on this machine.
    """
    path = str(name or default_model_path())
    sha256 = _hash_checkpoint(path)
    if sha256 is None:
        return None
    return replace(recorded, name=_public_name(path), sha256=sha256)


def _public_name(name: str) -> str | None:
    """Return the name by which a model can be loaded from anywhere; None for the default model."""
    if not name or not Path(name).is_dir():
        return name or "a model in memory"
    path = Path(name).resolve()
    try:
        is_default = path == default_model_path().resolve()
    except (ImportError, ValueError):
        is_default = False
    return None if is_default else str(path)


def _weight_files(name: str) -> list[Path]:
    folder = Path(name)
    if name and folder.is_dir():
        return sorted(folder.glob(_WEIGHTS))
    try:
        cached = try_to_load_from_cache(name, "config.json")
    except HFValidationError:
        return []
    return sorted(Path(cached).parent.glob(_WEIGHTS)) if isinstance(cached, str) else []


def _hash_checkpoint(name: str) -> str | None:
    """Hash the files of weights of a checkpoint; None if there are none on this machine."""
    files = _weight_files(name)
    stamps = tuple((str(file), file.stat().st_size, file.stat().st_mtime_ns) for file in files)
    return _hash_files(stamps) if stamps else None


@cache
def _hash_files(stamps: tuple[tuple[str, int, int], ...]) -> str:
    """Hash files, once as long as their sizes and times stay the same."""
    digest = hashlib.sha256()
    for path, _, _ in stamps:
        with Path(path).open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()


def _hash_weights(encoder: Encoder) -> str:
    digest = hashlib.sha256()
    for name, weight in sorted(encoder.model.state_dict().items()):
        digest.update(name.encode() + weight.float().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()
