"""Cross-encoders, which read a query and a text together, run by sentence-transformers."""

from importlib.util import find_spec
from os import PathLike
from typing import TYPE_CHECKING

from transformers import CONFIG_MAPPING

from foveate.checkpoint_files import load_checkpoint_json
from foveate.checkpoints import check_name_or_path
from foveate.models.loading import explain_errors

if TYPE_CHECKING:
    from sentence_transformers import CrossEncoder


def as_reranker(model: "CrossEncoder | str | PathLike[str]") -> "CrossEncoder":
    """Return a loaded cross-encoder unchanged, or load one by the name or path of its checkpoint.

    Raises:
        ImportError: sentence-transformers is not installed.
        OSError: There is no such checkpoint, or it has no safetensors weights.
        ValueError: It is no cross-encoder with one score, or comes with Python code of its own.
            This is checked before weights are downloaded.
    """
    if not isinstance(model, str | PathLike):
        return model
    name = str(model)
    check_name_or_path(name)
    config = load_checkpoint_json(name, "config.json") or {}
    settings = load_checkpoint_json(name, "config_sentence_transformers.json") or {}
    architectures = config.get("architectures") or [""]
    is_classifier = architectures[0].endswith("ForSequenceClassification")
    num_labels = len(config["id2label"]) if "id2label" in config else config.get("num_labels", 2)
    if settings.get("model_type") != "CrossEncoder" and not (is_classifier and num_labels == 1):
        raise ValueError(
            f"{name} is no reranker: name a cross-encoder with one label, such as "
            "cross-encoder/ms-marco-MiniLM-L6-v2"
        )
    if "auto_map" in config and config.get("model_type") not in CONFIG_MAPPING:
        raise ValueError(f"{name} comes with Python code of its own: name a reranker without")
    if find_spec("sentence_transformers") is None:
        raise ImportError(
            f"{name} is run by sentence-transformers: run "
            "`pip install 'foveate[sentence-transformers]'`"
        )
    from sentence_transformers import CrossEncoder

    with explain_errors(name):
        loaded: CrossEncoder = CrossEncoder(name, model_kwargs={"use_safetensors": True})
    return loaded
