"""What identifies the weights of a model: its files or, if it has none, the weights themselves."""

import hashlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from torch import nn

from foveate.files import FileStamp, hash_file, stamp_file
from foveate.inference.onednn import OneDNNLinear

_FILES_OF_MODULES = (
    "modules.json",
    "config_sentence_transformers.json",
    "sentence_bert_config.json",
    "[0-9]_*/config.json",
    "[0-9]_*/*.safetensors",
    "[0-9]_*/*.bin",
)
"""Each module but the first is in a folder of its own, such as 1_Pooling."""

_ATTRIBUTE = "_foveate_loaded_weights"


@dataclass(frozen=True, slots=True)
class LoadedWeights:
    """Where the weights of a model were loaded from.

    Attributes:
        name: The checkpoint's folder, or its name on the hub.
        files: The files that hold them; none if they are not on this machine.
    """

    name: str
    files: tuple[FileStamp, ...]


def note_loaded(model: nn.Module, name: str) -> None:
    """Keep with a model, and with copies of it, the checkpoint that it was loaded from."""
    vars(model)[_ATTRIBUTE] = LoadedWeights(name, stamp_files(name))


def loaded_weights(model: nn.Module) -> LoadedWeights | None:
    """Return what `note_loaded` kept; None for a model that foveate did not load."""
    loaded: LoadedWeights | None = vars(model).get(_ATTRIBUTE)
    return loaded


def stamp_files(name: str) -> tuple[FileStamp, ...]:
    """Find the files of weights of a checkpoint; none if there are none on this machine.

    Of one that sentence-transformers runs, those that describe its modules are among them.

    Args:
        name: Its folder, or its name on the hub.
    """
    folder = _folder(name)
    files = [] if folder is None else sorted(folder.glob("*.safetensors"))
    if folder is not None and (folder / "modules.json").is_file():
        files += sorted(
            file for pattern in _FILES_OF_MODULES for file in folder.glob(pattern) if file.is_file()
        )
    return tuple(map(stamp_file, files))


def _folder(name: str) -> Path | None:
    """Return the folder of a checkpoint; of one on the hub, that in the cache, if it is there."""
    if not name:
        return None
    if Path(name).is_dir():
        return Path(name)
    from huggingface_hub import try_to_load_from_cache  # which models in folders do not need
    from huggingface_hub.errors import HFValidationError

    try:
        cached = [try_to_load_from_cache(name, file) for file in ("config.json", "modules.json")]
    except HFValidationError:
        return None
    return next((Path(file).parent for file in cached if isinstance(file, str)), None)


@cache
def hash_files(stamps: tuple[FileStamp, ...]) -> str | None:
    """Hash files, once as long as their sizes and times stay the same.

    Returns:
        The hash; None if there are no files, or if they are no longer as they were.
    """
    digest = hashlib.sha256()
    try:
        for stamp in stamps:
            digest.update(bytes.fromhex(hash_file(stamp)))
            if stamp_file(Path(stamp[0])) != stamp:
                return None
    except FileNotFoundError:
        return None
    return digest.hexdigest() if stamps else None


def hash_weights(model: nn.Module) -> str:
    """Hash the weights of a model as they are in memory, those packed for oneDNN included."""
    weights = dict(model.state_dict())
    for name, module in model.named_modules():
        if isinstance(module, OneDNNLinear):  # its tensors are no parameters
            weights[f"{name}.weight"] = module.weight.to_dense()
            if module.bias is not None:
                weights[f"{name}.bias"] = module.bias
    digest = hashlib.sha256()
    for name, weight in sorted(weights.items()):
        digest.update(name.encode())
        digest.update(weight.float().cpu().contiguous().numpy())
    return digest.hexdigest()
