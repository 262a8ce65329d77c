"""A small vocabulary, and processors that use it."""

import pytest
import torch
import transformers

from foveate.inference import default_model_path
from foveate.preprocessing import HDTProcessor, TextProcessor
from foveate.training.tokenizer import train_tokenizer
from tests.t5 import save_t5


@pytest.fixture(scope="session")
def small_tokenizer(samples):
    return train_tokenizer((sample.document for sample in samples), 420)


@pytest.fixture(scope="session")
def t5_tokenizer(tmp_path_factory):
    folder = tmp_path_factory.mktemp("t5")
    text = "summarize: question: context: Where does it swim? at sea; on land whale swims. A ship"
    save_t5(folder, text)
    return transformers.AutoTokenizer.from_pretrained(folder)


@pytest.fixture(scope="session")
def bert_tokenizer():
    return transformers.AutoTokenizer.from_pretrained(default_model_path())


@pytest.fixture(scope="session")
def tree_processor(small_tokenizer):
    return HDTProcessor(small_tokenizer)


@pytest.fixture(scope="session")
def text_processor(small_tokenizer):
    return TextProcessor(small_tokenizer)


@pytest.fixture
def generator():
    return torch.Generator().manual_seed(0)


@pytest.fixture(autouse=True)
def quiet():
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
