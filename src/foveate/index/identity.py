"""Identification of the model that made a library's vectors."""

import hashlib
from pathlib import Path

from foveate.index.state import ModelRecord
from foveate.inference import Encoder
from foveate.inference.default_model import WEIGHTS_SHA256
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
        _public_name(loaded.name, sha256) if loaded and sha256 else "a model in memory",
        sha256 or hash_weights(encoder.model),
        encoder.context,
        encoder.dimension,
        encoder.options,
    )


def _public_name(name: str, sha256: str) -> str | None:
    """Return the name by which a model can be loaded from anywhere; None for the default model."""
    if sha256 == hashlib.sha256(bytes.fromhex(WEIGHTS_SHA256)).hexdigest():
        return None
    return str(Path(name).resolve()) if Path(name).is_dir() else name
