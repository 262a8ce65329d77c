"""A small corpus, its vocabulary, and a small checkpoint of each kind that recipes name."""

import json
import random

import pytest
import torch
import transformers

from foveate.models.default import default_model_path
from foveate.training.corpus import Corpus
from foveate.training.reading import as_text, as_tree
from foveate.training.tokenizer import learn_tokenizer

WORDS = ["the", "whale", "swims", "under", "ice", "and", "a", "ship", "follows", "home", "again"]


def made_up(number: int) -> dict:
    """A document of a few sections, as a line of a corpus."""
    rng = random.Random(number)

    def sentence() -> str:
        return " ".join(rng.choices(WORDS, k=rng.randint(3, 9))).capitalize() + "."

    sections = [
        {"heading": f"Part {i}", "sentences": [sentence() for _ in range(rng.randint(1, 4))]}
        for i in range(rng.randint(1, 3))
    ]
    return {"title": f"Voyage {number}", "sections": sections}


@pytest.fixture(scope="session")
def corpus_file(tmp_path_factory):
    file = tmp_path_factory.mktemp("corpus") / "voyages.jsonl"
    file.write_text("".join(json.dumps(made_up(i)) + "\n" for i in range(24)))
    return file


@pytest.fixture(scope="session")
def samples(corpus_file):
    return Corpus(corpus_file)


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
