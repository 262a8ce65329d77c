"""Identification of the model that made a library's vectors."""

import hashlib
from dataclasses import replace
from functools import cache
from pathlib import Path

from torch import nn

from foveate.index.store import ModelRecord
from foveate.inference import Encoder, default_model_path
from foveate.inference.weights import (
    FileStamp,
    checksum_weights,
    hash_weights,
    loaded_weights,
    stamp_files,
)

IN_MEMORY = "a model in memory"
"""The name of a model that cannot be loaded by name: its weights are in no file."""


def identify(encoder: Encoder) -> ModelRecord:
    """Return what identifies an encoder, by its weights in memory.

    As long as these are the ones that `Encoder.from_pretrained` loaded, it is the hash of the files
    that they were loaded from: it is the same on every device and in every dtype, and can be had
    without loading the model. If they have changed since, were never saved, or their files have
    been replaced, it is a hash of the weights themselves.
    """
    name, sha256 = _checkpoint_of(encoder.model) or (IN_MEMORY, hash_weights(encoder.model))
    return ModelRecord(name, sha256, encoder.context, encoder.dimension)


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
    sha256 = _hash_files(stamp_files(path))
    if sha256 is None:
        return None
    return replace(recorded, name=_public_name(path), sha256=sha256)


def _checkpoint_of(model: nn.Module) -> tuple[str | None, str] | None:
    """Return the name and the hash of the checkpoint whose weights a model has; None of others."""
    loaded = loaded_weights(model)
    if loaded is None or loaded.checksum != checksum_weights(model):
        return None
    sha256 = _hash_files(loaded.files)
    return None if sha256 is None else (_public_name(loaded.name), sha256)


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


@cache
def _hash_files(stamps: tuple[FileStamp, ...]) -> str | None:
    """Hash files, once as long as their sizes and times stay the same.

    Returns:
        The hash; None if there are no files, or if they are no longer as they were.
    """
    digest = hashlib.sha256()
    try:
        for path, size, modified in stamps:
            with Path(path).open("rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
            stat = Path(path).stat()
            if (stat.st_size, stat.st_mtime_ns) != (size, modified):
                return None
    except FileNotFoundError:
        return None
    return digest.hexdigest() if stamps else None
