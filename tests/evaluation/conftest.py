"""The small vocabulary and processors of the training tests."""

from tests.training.conftest import (  # noqa: F401
    quiet,
    small_tokenizer,
    text_processor,
    tree_processor,
)
