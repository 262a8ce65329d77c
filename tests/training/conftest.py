"""A small vocabulary, and the ways of reading."""

import pytest
import torch
import transformers

from foveate.inference.encoder import default_model_path
from foveate.training.reading import as_text, as_tree
from foveate.training.tokenizer import learn_tokenizer


@pytest.fixture(scope="session")
def small_tokenizer(samples):
    return learn_tokenizer((sample.document for sample in samples), 420)


@pytest.fixture(scope="session")
def bert_tokenizer():
    return transformers.AutoTokenizer.from_pretrained(default_model_path())


@pytest.fixture(scope="session")
def tree_reader(small_tokenizer):
    return as_tree(small_tokenizer)


@pytest.fixture(scope="session")
def text_reader(small_tokenizer):
    return as_text(small_tokenizer)


@pytest.fixture
def rng():
    return torch.Generator().manual_seed(0)


@pytest.fixture(autouse=True)
def quiet():
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
