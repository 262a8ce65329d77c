"""Rerankers, which compare texts with a query word by word, run by sentence-transformers."""

from collections.abc import Sequence
from os import PathLike
from threading import Lock
from typing import TYPE_CHECKING, TypeAlias, cast

from foveate.checkpoint_files import load_checkpoint_json
from foveate.checkpoints import check_name_or_path
from foveate.inference.sentence_models import check_code, is_multi_vector, load_whole

if TYPE_CHECKING:
    from sentence_transformers import CrossEncoder, MultiVectorEncoder

Reranker: TypeAlias = "CrossEncoder | MultiVectorEncoder"

_one_at_a_time = Lock()
"""Held while a model runs: its tokenizer cannot be used by two threads at once."""


def as_reranker(model: "Reranker | str | PathLike[str]") -> Reranker:
    """Return a loaded reranker unchanged, or load one by the name or path of its checkpoint.

    Raises:
        ImportError: sentence-transformers is not installed.
        OSError: There is no such checkpoint, or it has no safetensors weights.
        ValueError: It is neither a cross-encoder with one score nor a multi-vector model, or comes
            with Python code of its own, which is checked before weights are downloaded; or its
            weights are damaged, or it has no tokenizer.
    """
    if not isinstance(model, str | PathLike):
        return model
    name = str(model)
    check_name_or_path(name)
    has_vectors = is_multi_vector(name)
    if not (has_vectors or _is_cross_encoder(name)):
        raise ValueError(
            f"{name} is no reranker: name a cross-encoder with one label, such as "
            "cross-encoder/ms-marco-MiniLM-L6-v2, or a multi-vector model, such as "
            "lightonai/GTE-ModernColBERT-v1"
        )
    check_code(name, trust_remote_code=False, advice="name a reranker without")
    from sentence_transformers import CrossEncoder, MultiVectorEncoder

    return load_whole(MultiVectorEncoder, name) if has_vectors else load_whole(CrossEncoder, name)


def _is_cross_encoder(name: str) -> bool:
    """Return whether a checkpoint is a cross-encoder with one label."""
    config = load_checkpoint_json(name, "config.json") or {}
    settings = load_checkpoint_json(name, "config_sentence_transformers.json") or {}
    architectures = config.get("architectures") or [""]
    if architectures[0].endswith("ForSequenceClassification"):
        labels = config["id2label"] if "id2label" in config else range(config.get("num_labels", 2))
        return len(labels) == 1
    return bool(settings.get("model_type") == "CrossEncoder")


def reads_pairs(model: Reranker) -> bool:
    """Return whether a reranker is a cross-encoder, which reads each text with the query."""
    from sentence_transformers import CrossEncoder

    return isinstance(model, CrossEncoder)


def score_texts(model: Reranker, query: str, texts: Sequence[str]) -> list[float]:
    """Score texts by how well they match a query.

    Of a cross-encoder these are its scores, after its activation; of a multi-vector model, the sum
    over the query's tokens of each one's greatest similarity with a token of the text (MaxSim). A
    text is cut where it is too long for the model.
    """
    with _one_at_a_time:
        if reads_pairs(model):
            pairs = [(query, text) for text in texts]
            scores = cast("CrossEncoder", model).predict(pairs, show_progress_bar=False)
            return cast(list[float], scores.tolist())
        encoder = cast("MultiVectorEncoder", model)
        similarities = encoder.similarity(
            encoder.encode_query([query], show_progress_bar=False),
            encoder.encode_document(list(texts), show_progress_bar=False),
        )
        return cast(list[float], similarities[0].tolist())
