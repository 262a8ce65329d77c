"""The small vocabularies of the training tests."""

from tests.training.conftest import bert_tokenizer, small_tokenizer  # noqa: F401
