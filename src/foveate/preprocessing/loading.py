"""Loading of what prepares a checkpoint's inputs: its tokenizer and its saved processor."""

from collections.abc import Iterable, Mapping
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

from transformers import AutoTokenizer, PreTrainedTokenizerBase

from foveate.checkpoints import check_name_or_path, load_checkpoint_json

from .processor import DocumentProcessor, tokenizer_options

_MISSING = "{} has no tokenizer: save the tokenizer that the model was trained with there"

Processor = TypeVar("Processor", bound=DocumentProcessor)


def load_tokenizer(name_or_path: str | PathLike[str]) -> PreTrainedTokenizerBase:
    """Load a checkpoint's tokenizer.

    Raises:
        OSError: There is no such checkpoint.
        TypeError: `name_or_path` is neither a name nor a path.
        ValueError: Its tokenizer is missing or damaged, or its configuration is damaged.
    """
    check_name_or_path(name_or_path)
    options = tokenizer_options(name_or_path)
    try:
        tokenizer = AutoTokenizer.from_pretrained(name_or_path, **options)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(
            f"the tokenizer of {name_or_path} is damaged ({type(error).__name__}: {error}): "
            "copy or download it again"
        ) from error
    except ValueError as error:
        if "instantiate the backend tokenizer" not in str(error):
            raise
        raise ValueError(_MISSING.format(name_or_path)) from error
    check_tokenizer(name_or_path, tokenizer)
    return tokenizer


def check_tokenizer(name_or_path: str | PathLike[str], tokenizer: PreTrainedTokenizerBase) -> None:
    """Refuse the empty tokenizer that transformers makes if its files are missing.

    Raises:
        ValueError: A folder has no files of its tokenizer. Byte tokenizers have none.
    """
    files = {*tokenizer.vocab_files_names.values(), "tokenizer.json"}
    folder = Path(name_or_path)
    if (
        folder.is_dir()
        and tokenizer.vocab_files_names
        and not any((folder / file).exists() for file in files)
    ):
        raise ValueError(_MISSING.format(name_or_path))


def load_saved_processor(
    name_or_path: str | PathLike[str],
    tokenizer: PreTrainedTokenizerBase,
    kinds: Iterable[type[Processor]],
    **options: Any,
) -> Processor | None:
    """Load the processor saved with a checkpoint.

    Args:
        name_or_path: A folder, or a name on the hub.
        tokenizer: The checkpoint's tokenizer.
        kinds: The classes of processors to load.
        options: Arguments of the processor, which override the saved ones.

    Returns:
        The processor; None if none is saved, or one of another class.

    Raises:
        ValueError: The checkpoint's `processor_config.json` is damaged, or the processor has no
            such option or rejects its value.
    """
    saved = dict(load_checkpoint_json(name_or_path, "processor_config.json") or {})
    name = saved.pop("processor_class", None)
    kind = next((kind for kind in kinds if kind.__name__ == name), None)
    return None if kind is None else build_processor(kind, tokenizer, saved | options)


def build_processor(
    kind: type[Processor], tokenizer: PreTrainedTokenizerBase, options: Mapping[str, Any]
) -> Processor:
    """Make a processor.

    Raises:
        ValueError: The processor has no such option, or rejects its value.
    """
    try:
        return kind(tokenizer, **options)
    except TypeError as error:
        if "unexpected keyword" not in str(error):
            raise
        name = str(error).rpartition("'")[0].rpartition("'")[2]
        raise ValueError(f"{kind.__name__} has no option {name!r}") from error
