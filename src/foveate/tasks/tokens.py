"""How many tokens texts have for a language model."""

from collections.abc import Callable, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

BYTES_PER_TOKEN = 4

DEFAULT_TOKENS = 4000
"""The budget of `foveate.tasks.context.context`."""

Counter = Callable[[Sequence[str]], list[int]]
"""Returns how many tokens each text has, without special tokens."""


def estimate_tokens(texts: Sequence[str]) -> list[int]:
    """Estimate how many tokens each text has: one for every four bytes of UTF-8, rounded up.

    Example:
        >>> estimate_tokens(["The cod is a fish of cold seas.", "鳕鱼在游泳。"])
        [8, 5]
    """
    return [-(-len(text.encode()) // BYTES_PER_TOKEN) for text in texts]


def token_counter(tokenizer: "PreTrainedTokenizerBase | str | PathLike[str] | None") -> Counter:
    """Return what counts tokens.

    Args:
        tokenizer: A tokenizer of transformers, the name or path of a checkpoint that has one, or a
            file of the tokenizers library (`tokenizer.json`); None for `estimate_tokens`.

    Raises:
        OSError: There is no such checkpoint or file.
        ValueError: The tokenizer is missing or damaged.
    """
    if tokenizer is None:
        return estimate_tokens
    if isinstance(tokenizer, str | PathLike):
        if Path(tokenizer).is_file():
            return _file_counter(tokenizer)
        from foveate.preprocessing import load_tokenizer

        tokenizer = load_tokenizer(tokenizer)
    loaded = tokenizer

    def count(texts: Sequence[str]) -> list[int]:
        ids = loaded(list(texts), add_special_tokens=False, verbose=False)["input_ids"]
        return [len(one) for one in ids]

    return count


def _file_counter(path: str | PathLike[str]) -> Counter:
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # the library has no class of its own for this
        raise ValueError(f"{path} is no tokenizer: name a tokenizer.json ({error})") from error
    tokenizer.no_truncation()
    tokenizer.no_padding()

    def count(texts: Sequence[str]) -> list[int]:
        return [len(one) for one in tokenizer.encode_batch(list(texts), add_special_tokens=False)]

    return count
