"""Identification of the model that made a library's vectors."""

from pathlib import Path

from foveate.index.state import ModelRecord
from foveate.inference import Encoder, default_model_path
from foveate.inference.weights import hash_files, hash_weights, loaded_weights


def identify(encoder: Encoder) -> ModelRecord:
    """Return what identifies an encoder.

    It is the hash of the files that `Encoder.from_pretrained` loaded: the same on every device and
    in every dtype. If the weights were never saved, or their files have been replaced, it is a hash
    of the weights themselves, and the name is "a model in memory".
    """
    loaded = loaded_weights(encoder.model)
    sha256 = None if loaded is None else hash_files(loaded.files)
    return ModelRecord(
        "a model in memory" if loaded is None or sha256 is None else _public_name(loaded.name),
        sha256 or hash_weights(encoder.model),
        encoder.context,
        encoder.dimension,
        encoder.options,
    )


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
