"""Checkpoints that sentence-transformers runs, checked by their small files before the weights."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

from transformers import CONFIG_MAPPING

from foveate.checkpoint_files import load_checkpoint_json
from foveate.inference.onednn import use_onednn
from foveate.models.loading import explain_errors, load_model
from foveate.preprocessing.loading import check_tokenizer

Model = TypeVar("Model")


def module_types(name: str) -> list[str]:
    """Return the classes of a checkpoint's modules, in order; none if it has no `modules.json`.

    Raises:
        ValueError: The file is damaged.
    """
    modules = load_checkpoint_json(name, "modules.json")
    if modules is None:
        return []
    try:
        types = [str(module["type"]) for module in modules if {"name", "path"} <= module.keys()]
    except (AttributeError, KeyError, TypeError):
        types = []
    if not types or len(types) < len(modules):
        raise ValueError(f"the modules.json of {name} is damaged: copy or download it again")
    return types


def is_multi_vector(name: str) -> bool:
    """Return whether a checkpoint is a multi-vector model: one with a vector for each token."""
    settings = load_checkpoint_json(name, "config_sentence_transformers.json") or {}
    kind = settings.get("model_type")
    types = module_types(name)
    return kind in ("MultiVectorEncoder", "ColBERT") or any(
        one.startswith("pylate.") for one in types
    )


def check_code(name: str, *, trust_remote_code: bool, advice: str) -> None:
    """Check that a checkpoint needs no Python code of its own, and that there is what runs it.

    Args:
        name: The folder of the checkpoint, or its name on the hub.
        trust_remote_code: Whether such code may be run.
        advice: What to do about such code.

    Raises:
        ImportError: sentence-transformers is not installed.
        ValueError: It comes with code, which may not be run.
    """
    folder = _folder(name)
    config = load_checkpoint_json(name, f"{folder}/config.json" if folder else "config.json") or {}
    is_unknown = "auto_map" in config and config.get("model_type") not in CONFIG_MAPPING
    is_own = all(
        one.startswith("sentence_transformers.") or one == "pylate.models.Dense.Dense"
        for one in module_types(name)
    )
    if (is_unknown or not is_own) and not trust_remote_code:
        raise ValueError(f"{name} comes with Python code of its own: {advice}")
    if find_spec("sentence_transformers") is None:
        raise ImportError(
            f"{name} is run by sentence-transformers: run "
            "`pip install 'foveate[sentence-transformers]'`"
        )


def load_whole(cls: type[Model], name: str, **options: Any) -> Model:
    """Load a model of sentence-transformers with all of its weights, and a tokenizer.

    On a CPU, oneDNN computes its linear layers, unless it may come with code that expects others.

    Args:
        cls: Its class.
        name: The folder of its checkpoint, or its name on the hub.
        options: Arguments of the class.

    Raises:
        OSError: There are no safetensors weights.
        ValueError: A file is damaged or missing, or there is no tokenizer.
    """
    from sentence_transformers.base.modules import Transformer

    kwargs = {"use_safetensors": True, **options.pop("model_kwargs", {})}
    try:
        with explain_errors(name):
            model: Any = cls(name, model_kwargs=kwargs, **options)  # type: ignore[call-arg]
    except (KeyError, OSError, TypeError, ValueError) as error:
        if "copy or download" in str(error):
            raise
        kind = OSError if isinstance(error, OSError) else ValueError
        raise kind(
            f"{name} is not complete ({str(error).partition(chr(10))[0]}): copy or download it "
            "again; its weights must be in safetensors files"
        ) from error
    folder = _folder(name)
    if isinstance(model[0], Transformer) and model[0].config.name_or_path == name:
        # Where weights are missing, sentence-transformers leaves random ones.
        load_model(type(model[0].model), name, device_map="meta", subfolder=folder)
    check_tokenizer(Path(name, folder), model.tokenizer)
    loaded: Model = model.eval()
    if model.device.type == "cpu" and not options.get("trust_remote_code"):
        use_onednn(model, next(model.parameters()).dtype)
    return loaded


def _folder(name: str) -> str:
    """Return the folder in a checkpoint where its Transformer is; empty if it is the same."""
    modules = load_checkpoint_json(name, "modules.json") or [{}]
    return str(modules[0].get("path") or "")
