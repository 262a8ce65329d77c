"""Where the weights of a model in memory are from, and whether they are still those.

A model that was trained further after it was loaded still has the name of its checkpoint. So sums
over the bits of its weights are kept with it when it is loaded. Any later change is noticed by
them, whatever made it.

They are computed when a model is loaded, although only libraries need them, because the weights are
then known to be those of the files. To compare the two later, the model would have to be loaded a
second time, as layers are renamed, converted, fused and packed. The sums take a tenth of the time
of a hash. The counters by which autograd notices changes take no time, but writing to the `data` of
a parameter does not change them: they are good enough from one search to the next, not for what is
written to a library.
"""

import hashlib
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from foveate.inference.onednn import OneDNNLinear

_SUFFIX = "*.safetensors"
_ATTRIBUTE = "_foveate_loaded_weights"

_COLUMNS = 1021
"""A prime, so that the rows of a matrix hardly ever line up: sums change if two swap places."""

_WORD = 8

FileStamp = tuple[str, int, int]
"""The path of a file, its size, and when it was last changed, in nanoseconds."""


@dataclass(frozen=True, slots=True)
class LoadedWeights:
    """The weights of a model when it was loaded.

    Attributes:
        name: The checkpoint's folder, or its name on the hub.
        files: The files that hold them; none if they are not on this machine.
        checksum: What `checksum_weights` returned.
    """

    name: str
    files: tuple[FileStamp, ...]
    checksum: str


def note_loaded(model: nn.Module, name: str) -> None:
    """Keep with a model what its weights are, now that they have been loaded.

    This is part of the model, so that copies of it have it, too, and encoders that share it.

    Args:
        model: The model, in its dtypes and with its layers packed, which change the checksum.
        name: The checkpoint's folder, or its name on the hub.
    """
    vars(model)[_ATTRIBUTE] = LoadedWeights(name, stamp_files(name), checksum_weights(model))


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


def checksum_weights(model: nn.Module) -> str:
    """Return a checksum of the weights of a model as they are in memory, on any device."""
    digest = hashlib.sha256()
    packed = _packed_layers(model)
    weights = [*model.state_dict().values(), *(one.bias for one in packed if one.bias is not None)]
    for bits in [sum_bits(weight) for weight in weights]:  # all of which a GPU begins at once
        digest.update(bits.cpu().numpy().tobytes())
    for layer in packed:
        digest.update(layer.weight_id.encode())
    return digest.hexdigest()


def sum_bits(tensor: Tensor) -> Tensor:
    """Sum the bits of a tensor by columns, on its device.

    The tensor is laid out in rows of 1,021 words of 64 bits. The sums of the columns wrap around.
    What does not fill a row is kept as it is, so small tensors are compared bit by bit. A change is
    missed only if it spares this rest and cancels out in every column: no training step does that.

    Returns:
        `(bytes,)` uint8: the sums, if there is a whole row, and the rest.
    """
    flat = tensor.detach().reshape(-1)
    per_word = _WORD // flat.itemsize
    if flat.storage_offset() % per_word:  # words must be aligned
        flat = flat.clone()
    num_in_rows = len(flat) // (_COLUMNS * per_word) * _COLUMNS * per_word
    rows, rest = flat[:num_in_rows], flat[num_in_rows:].view(torch.uint8)
    if not len(rows):
        return rest
    words = rows.view(torch.int64).view(-1, _COLUMNS)
    # torch would use several threads, which wait for each other if other programs need the cores.
    sums = torch.from_numpy(words.numpy().sum(0)) if words.is_cpu else words.sum(0)
    return torch.cat([sums.view(torch.uint8), rest])


def stamp_weights(model: nn.Module) -> tuple[object, ...]:
    """Return a value that changes when weights are changed or replaced, in a millisecond.

    Writing to the `data` of a parameter does not change it: only `checksum_weights` notices that.
    """
    parameters = (
        (one.data_ptr(), None if one.is_inference() else one._version) for one in model.parameters()
    )
    return *parameters, *(layer.weight_id for layer in _packed_layers(model))


def _packed_layers(model: nn.Module) -> list[OneDNNLinear]:
    return [module for module in model.modules() if isinstance(module, OneDNNLinear)]


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
