"""Loading of any transformers encoder, with its processor and its pooling."""

import torch
from transformers import AutoModel, PreTrainedModel, PreTrainedTokenizerBase

from foveate.inference.pooling import Pooling
from foveate.models.hdt.attention_interface import TREE_ATTENTION, register
from foveate.models.loading import load_config, load_model
from foveate.models.utils import first_position
from foveate.preprocessing.hdt import HDTProcessor
from foveate.preprocessing.loading import load_saved_processor, load_tokenizer
from foveate.preprocessing.tree_bert import TreeBertProcessor


def load_checkpoint(path: str) -> tuple[PreTrainedModel, HDTProcessor, Pooling]:
    """Load an encoder in float32, its processor and its pooling.

    Raises:
        OSError: There is no such checkpoint, or it has no safetensors weights.
        ValueError: `Encoder` cannot run this kind of checkpoint.
    """
    register()
    kind = load_config(path).model_type
    if kind.startswith("vcc"):
        raise ValueError(
            f"{path} is a {kind} model, which reads with a question and gives no vectors: "
            "name an encoder"
        )
    model = load_model(AutoModel, path, dtype=torch.float32)
    if kind == "tree_bert":
        pooling = Pooling(normalize=True)
    elif kind == "hdt":
        pooling = Pooling(takes_first_token=True)
    else:
        pooling = Pooling.from_pretrained(path)
        _use_tree_attention(model, path)
    tokenizer = load_tokenizer(path)
    processor = load_saved_processor(path, tokenizer, (HDTProcessor, TreeBertProcessor))
    if processor is not None:
        return model, processor, pooling
    if kind == "tree_bert":
        raise ValueError(
            f"{path} has no processor_config.json, or one that does not say how documents become "
            "trees: save the TreeBertProcessor that the model was trained with there"
        )
    if kind == "hdt":
        return model, HDTProcessor(tokenizer), pooling
    longest = _longest_sentence(model, tokenizer, pooling)
    return model, TreeBertProcessor(tokenizer, max_sentence_tokens=longest), pooling


def _longest_sentence(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, pooling: Pooling
) -> int:
    """Return how many tokens fit between the two that enclose a sentence."""
    limits = [
        pooling.max_tokens,
        getattr(model.config, "max_position_embeddings", None),
        tokenizer.model_max_length,
    ]
    return min(limit for limit in limits if limit is not None) - first_position(model) - 2


def _use_tree_attention(model: PreTrainedModel, path: str) -> None:
    try:
        model.set_attn_implementation(TREE_ATTENTION)
        supported = model._supports_attention_backend
    except ValueError:
        supported = False
    if not supported or model.config.is_encoder_decoder:
        raise ValueError(
            f"{path} is a {model.config.model_type} model, whose attention transformers does not "
            "let us replace: use an encoder such as BERT, RoBERTa, MiniLM or ModernBERT"
        )
