"""Identification of the model that made a library's vectors."""

from dataclasses import replace
from pathlib import Path

from foveate.index.state import IN_MEMORY, ModelRecord
from foveate.inference import Encoder, default_model_path
from foveate.inference.weights import hash_files, hash_weights, loaded_weights, stamp_files


def identify(encoder: Encoder) -> ModelRecord:
    """Return what identifies an encoder.

    It is the hash of the files that `Encoder.from_pretrained` loaded: the same on every device and
    in every dtype. If the weights were never saved, or their files have been replaced, it is a hash
    of the weights themselves.
    """
    loaded = loaded_weights(encoder.model)
    sha256 = None if loaded is None else hash_files(loaded.files)
    name: str | None = IN_MEMORY
    if loaded is not None and sha256 is not None:
        name = _public_name(loaded.name)
    return ModelRecord(
        name,
        sha256 or hash_weights(encoder.model),
        encoder.context,
        encoder.dimension,
        encoder.options,
    )


def identify_checkpoint(name: str | None, recorded: ModelRecord) -> ModelRecord | None:
    """Return what identifies a checkpoint without loading it.

    Its context, dimension and options, which do not follow from its files alone, are taken from
    the record: whoever loads it later compares them with what `identify` returns.

    Args:
        name: Its folder, or its name on the hub; None for the default model.
        recorded: The model that made the library.

    Returns:
        The record; None if its weights are not on this machine.
    """
    path = str(name or default_model_path())
    sha256 = hash_files(stamp_files(path))
    if sha256 is None:
        return None
    return replace(recorded, name=_public_name(path), sha256=sha256)


def _public_name(name: str) -> str | None:
    """Return the name by which a model can be loaded from anywhere; None for the default model."""
    if not Path(name).is_dir():
        return name
    path = Path(name).resolve()
    try:
        is_default = path == default_model_path().resolve()
    except (ImportError, ValueError):
        is_default = False
    return None if is_default else str(path)
