"""The processor for a checkpoint: the one saved with it, or that of its model family."""

from os import PathLike
from typing import Any

from transformers import PreTrainedConfig, PreTrainedTokenizerBase
from transformers.tokenization_utils_base import VERY_LARGE_INTEGER

from .hdt import HDTProcessor
from .led import LEDProcessor
from .loading import build_processor, load_saved_processor, load_tokenizer
from .processor import OWN_MODEL_TYPES, DocumentProcessor
from .text import TextProcessor
from .tree_bert import TreeBertProcessor
from .vcc import VCCProcessor

PROCESSORS: dict[str, type[DocumentProcessor]] = {
    "hdt": HDTProcessor,
    "led": LEDProcessor,
    "longformer": LEDProcessor,
    "tree_bert": TreeBertProcessor,
    "vcc_bert": VCCProcessor,
    "vcc_roberta": VCCProcessor,
    "vcc_t5": VCCProcessor,
}
"""Processors by model type; models of all other types read plain text."""

_POSITIONS_AFTER_PADDING = (
    "camembert",
    "data2vec-text",
    "longformer",
    "mpnet",
    "roberta",
    "roberta-prelayernorm",
    "xlm-roberta",
    "xlm-roberta-xl",
    "xmod",
)
"""Model types that number positions from `pad_token_id + 1`: that many entries of their table of
positions hold no token."""


def processor_for(
    config: PreTrainedConfig, tokenizer: PreTrainedTokenizerBase, **options: Any
) -> DocumentProcessor:
    """Make the processor of a model's family.

    Args:
        config: The model's configuration, which gives its family, its longest input and, for T5,
            the prefix of summarization.
        tokenizer: The model's tokenizer.
        options: Arguments of the processor, which override those from the configuration.

    Raises:
        ValueError: The processor has no such option, or rejects its value.
    """
    kind = PROCESSORS.get(config.model_type, TextProcessor)
    if issubclass(kind, TextProcessor):
        options = {"prefix": _task_prefix(config), **options}
    options = {"max_length": longest_input(config, tokenizer), **options}
    return build_processor(kind, tokenizer, options)


def load_processor(
    name_or_path: str | PathLike[str], config: PreTrainedConfig, **options: Any
) -> DocumentProcessor:
    """Load the processor saved with a checkpoint, or make that of its family if there is none.

    Args:
        name_or_path: A folder, or a name on the hub.
        config: The checkpoint's configuration.
        options: Arguments of the processor, which override the saved ones.

    Raises:
        OSError: There is no such checkpoint.
        TypeError: `name_or_path` is neither a name nor a path.
        ValueError: Its tokenizer is missing or damaged, its `processor_config.json` is damaged, or
            the processor has no such option or rejects its value.
    """
    tokenizer = load_tokenizer(name_or_path)
    families: set[type[DocumentProcessor]] = {TextProcessor, *PROCESSORS.values()}
    saved = load_saved_processor(name_or_path, tokenizer, families, **options)
    return processor_for(config, tokenizer, **options) if saved is None else saved


def longest_input(config: PreTrainedConfig, tokenizer: PreTrainedTokenizerBase) -> int | None:
    """Return the longest input in tokens that a model takes, None where nothing limits it."""
    if config.model_type in OWN_MODEL_TYPES:
        return None  # whatever the tokenizer of their checkpoint says
    num_positions = getattr(config, "max_position_embeddings", None)
    if num_positions is not None and config.model_type in _POSITIONS_AFTER_PADDING:
        num_positions -= (config.pad_token_id or 0) + 1
    limits = [
        tokenizer.model_max_length,
        getattr(config, "max_encoder_position_embeddings", None),
        num_positions,
    ]
    limit = min(limit for limit in limits if limit is not None)
    return None if limit >= VERY_LARGE_INTEGER else int(limit)


def _task_prefix(config: PreTrainedConfig) -> str:
    tasks = getattr(config, "task_specific_params", None) or {}
    return str(tasks.get("summarization", {}).get("prefix", ""))
