"""Where the weights of a model in memory are from, and whether they are still those.

A model that was trained further after it was loaded still has the name of its checkpoint. So a hash
of its weights is kept with it when it is loaded, by which any change is noticed, whatever made it.
"""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from torch import nn

from foveate.inference.onednn import OneDNNLinear

_SUFFIX = "*.safetensors"
_ATTRIBUTE = "_foveate_loaded_weights"

FileStamp = tuple[str, int, int]
"""The path of a file, its size, and when it was last changed, in nanoseconds."""


@dataclass(frozen=True, slots=True)
class LoadedWeights:
    """The weights of a model when it was loaded.

    Attributes:
        name: The checkpoint's folder, or its name on the hub.
        files: The files that hold them; none if they are not on this machine.
        sha256: What `hash_weights` returned.
    """

    name: str
    files: tuple[FileStamp, ...]
    sha256: str


def note_loaded(model: nn.Module, name: str) -> None:
    """Keep with a model what its weights are, now that they have been loaded.

    It is part of the model, so that copies have it, too, and encoders that share the model.

    Args:
        model: The model, on its device and in its dtypes, which change the hash.
        name: The checkpoint's folder, or its name on the hub.
    """
    vars(model)[_ATTRIBUTE] = LoadedWeights(name, stamp_files(name), hash_weights(model))


def loaded_weights(model: nn.Module) -> LoadedWeights | None:
    """Return what `note_loaded` kept; None for a model that foveate did not load."""
    loaded: LoadedWeights | None = vars(model).get(_ATTRIBUTE)
    return loaded


def stamp_files(name: str) -> tuple[FileStamp, ...]:
    """Find the files of weights of a checkpoint; none if there are none on this machine.

    Args:
        name: Its folder, or its name on the hub.
    """
    folder = _folder(name)
    files = () if folder is None else sorted(folder.glob(_SUFFIX))
    stats = [(file, file.stat()) for file in files]
    return tuple((str(file), stat.st_size, stat.st_mtime_ns) for file, stat in stats)


def _folder(name: str) -> Path | None:
    """Return the folder of a checkpoint; of one on the hub, that in the cache, if it is there."""
    if not name:
        return None
    if Path(name).is_dir():
        return Path(name)
    from huggingface_hub import try_to_load_from_cache  # which models in folders do not need
    from huggingface_hub.errors import HFValidationError

    try:
        cached = try_to_load_from_cache(name, "config.json")
    except HFValidationError:
        return None
    return Path(cached).parent if isinstance(cached, str) else None


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


def stamp_weights(model: nn.Module) -> tuple[tuple[int, int | None], ...]:
    """Return a value that changes when parameters are changed or replaced, in a millisecond.

    It rests on the counters by which autograd notices changes, so writing to the `data` of a
    parameter is not seen: only `hash_weights` sees that.
    """
    return tuple(
        (one.data_ptr(), None if one.is_inference() else one._version) for one in model.parameters()
    )
