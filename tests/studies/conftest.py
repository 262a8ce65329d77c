"""The small vocabulary of the training tests."""

from tests.training.conftest import small_tokenizer  # noqa: F401
