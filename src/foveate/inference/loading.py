"""Loading of a TreeBert or an HDT with its processor."""

import torch
from transformers import AutoModel, PreTrainedModel

from foveate.models.loading import load_config, load_model
from foveate.preprocessing.hdt import HDTProcessor
from foveate.preprocessing.loading import load_saved_processor, load_tokenizer
from foveate.preprocessing.tree_bert import TreeBertProcessor


def load_checkpoint(path: str) -> tuple[PreTrainedModel, HDTProcessor | TreeBertProcessor]:
    """Load an encoder of trees in float32, and its processor.

    Raises:
        OSError: There is no such checkpoint, or it has no safetensors weights.
        ValueError: It is no encoder of trees, or does not say how documents become trees.
    """
    kind = load_config(path).model_type
    if kind not in ("tree_bert", "hdt"):
        raise ValueError(
            f"{path} is a {kind} model that does not say how texts become vectors, since it has no "
            "modules.json: name an encoder, or save this one with sentence-transformers"
        )
    model = load_model(AutoModel, path, dtype=torch.float32)
    tokenizer = load_tokenizer(path)
    kinds: tuple[type[HDTProcessor | TreeBertProcessor], ...] = HDTProcessor, TreeBertProcessor
    processor = load_saved_processor(path, tokenizer, kinds)
    if processor is not None:
        return model, processor
    if kind == "hdt":
        return model, HDTProcessor(tokenizer)
    raise ValueError(
        f"{path} has no processor_config.json, or one that does not say how documents become "
        "trees: save the TreeBertProcessor that the model was trained with there"
    )
