"""Tables of words, one file for each kind; each file states where its words are from."""

import re
import tomllib
from functools import cache
from importlib.resources import files
from typing import Any


@cache
def load_words(kind: str) -> dict[str, Any]:
    """Return the table in the file of a kind, such as "months"; it is shared: do not change it."""
    return tomllib.loads(files(__name__).joinpath(f"{kind}.toml").read_text("utf-8"))


def name_set(names: str) -> frozenset[str]:
    """Split names separated by spaces."""
    return frozenset(names.split())


def alternatives(words: str | list[str]) -> str:
    """Return a regular expression of any of some words, or of the patterns in a list."""
    return "|".join(map(re.escape, words.split()) if isinstance(words, str) else words)
