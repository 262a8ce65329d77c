"""Which processor a checkpoint takes: the one saved with it, or that of its family."""

from os import PathLike
from pathlib import Path
from typing import Any

from transformers import AutoTokenizer, PreTrainedConfig, PreTrainedTokenizerBase
from transformers.tokenization_utils_base import VERY_LARGE_INTEGER

from foveate.checkpoint_files import load_checkpoint_json
from foveate.checkpoints import check_name_or_path

from .hdt import HDTProcessor
from .led import LEDProcessor
from .processor import DocumentProcessor
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

_UNLIMITED = ("fovea", "hdt", "tree_bert", "vcc_bert", "vcc_roberta", "vcc_t5")
"""Model types that read any length, whatever the tokenizer of their checkpoint says."""

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
    return _build(kind, tokenizer, options)


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
    saved = _saved_options(name_or_path)
    families: set[type[DocumentProcessor]] = {TextProcessor, *PROCESSORS.values()}
    kinds = {kind.__name__: kind for kind in families}
    kind = kinds.get(saved.pop("processor_class", ""))
    if kind is None:
        return processor_for(config, tokenizer, **options)
    return _build(kind, tokenizer, saved | options)


def longest_input(config: PreTrainedConfig, tokenizer: PreTrainedTokenizerBase) -> int | None:
    """Return the longest input in tokens that a model takes, None where nothing limits it."""
    if config.model_type in _UNLIMITED:
        return None
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


def load_tokenizer(name_or_path: str | PathLike[str]) -> PreTrainedTokenizerBase:
    """Load a checkpoint's tokenizer.

    Raises:
        OSError: There is no such checkpoint.
        TypeError: `name_or_path` is neither a name nor a path.
        ValueError: Its tokenizer is missing or damaged.
    """
    check_name_or_path(name_or_path)
    missing = (
        f"{name_or_path} has no tokenizer: save the tokenizer that the model was trained with there"
    )
    try:
        tokenizer = AutoTokenizer.from_pretrained(name_or_path)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(
            f"the tokenizer of {name_or_path} is damaged ({type(error).__name__}: {error}): "
            "copy or download it again"
        ) from error
    except ValueError as error:
        if "instantiate the backend tokenizer" not in str(error):
            raise
        raise ValueError(missing) from error
    # Without its files, transformers makes an empty tokenizer; byte tokenizers have no files.
    files = {*tokenizer.vocab_files_names.values(), "tokenizer.json"}
    folder = Path(name_or_path)
    if (
        folder.is_dir()
        and tokenizer.vocab_files_names
        and not any((folder / file).exists() for file in files)
    ):
        raise ValueError(missing)
    return tokenizer


def _build(
    kind: type[DocumentProcessor], tokenizer: PreTrainedTokenizerBase, options: dict[str, Any]
) -> DocumentProcessor:
    try:
        return kind(tokenizer, **options)
    except TypeError as error:
        if "unexpected keyword" not in str(error):
            raise
        name = str(error).rpartition("'")[0].rpartition("'")[2]
        raise ValueError(f"{kind.__name__} has no option {name!r}") from error


def _task_prefix(config: PreTrainedConfig) -> str:
    tasks = getattr(config, "task_specific_params", None) or {}
    return str(tasks.get("summarization", {}).get("prefix", ""))


def _saved_options(name_or_path: str | PathLike[str]) -> dict[str, Any]:
    """Read a checkpoint's processor_config.json; return an empty mapping if it has none."""
    return dict(load_checkpoint_json(name_or_path, "processor_config.json") or {})
