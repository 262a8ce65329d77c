"""Settings and fixtures for all tests. Checkpoints are small, random, and made as needed."""

import gc
import json
import os
import random
from collections.abc import Iterator

import pytest

import tests.profiles  # noqa: F401

# torch and what imports it are imported late: where tests run in several processes, the first of
# them runs none, and the others start when it has read this file.

# Threads slow down operations on small tensors, in processes that tests start as well.
os.environ["OMP_NUM_THREADS"] = "1"

WORDS = ["the", "whale", "swims", "under", "ice", "and", "a", "ship", "follows", "home", "again"]


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Look for no garbage among what is imported, which takes seconds."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish() -> None:
    """Keep what has been imported out of collections of garbage, of which a trainer makes many."""
    import torch

    torch.set_num_threads(1)
    gc.freeze()


def pytest_unconfigure() -> None:
    gc.unfreeze()


@pytest.fixture(scope="session", autouse=True)
def user_folders(tmp_path_factory):
    """Keep tests out of the user's cache, and the user's settings out of tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("config")))
        yield


def random_record(number: int) -> dict:
    """Make a document of a few sections, as a record of a corpus."""
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
    file.write_text("".join(json.dumps(random_record(i)) + "\n" for i in range(24)))
    return file


@pytest.fixture(scope="session")
def samples(corpus_file):
    from foveate.data import Corpus

    return Corpus(corpus_file)


@pytest.fixture(scope="session")
def tokenizer():
    from transformers import AutoTokenizer

    from foveate.inference import default_model_path

    return AutoTokenizer.from_pretrained(default_model_path())


@pytest.fixture(scope="session")
def bert_tokenizer(tokenizer):
    """The same, from which tests read special tokens around a text."""
    return tokenizer


@pytest.fixture
def hdt_config():
    from foveate.models.hdt import HDTConfig

    return HDTConfig(vocab_size=60, d_model=16, d_kv=8, d_ff=24, num_layers=2, num_heads=2)


@pytest.fixture
def hdt(hdt_config):
    import torch

    from foveate.models.hdt import HDTModel

    torch.manual_seed(0)
    return HDTModel(hdt_config).double().eval()


@pytest.fixture(scope="session")
def small_model(tmp_path_factory, tokenizer):
    """The folder of a small random TreeBert."""
    from tests.tree_bert import save_tree_bert

    folder = tmp_path_factory.mktemp("tree_bert")
    save_tree_bert(folder, tokenizer)
    return folder


@pytest.fixture(scope="session")
def small_encoder(small_model):
    from foveate import Encoder

    return Encoder.from_pretrained(small_model, device="cpu")


@pytest.fixture(scope="session")
def encoder():
    from foveate import Encoder

    return Encoder.from_pretrained(device="cpu")


@pytest.fixture(scope="session")
def sea():
    """Three sections, one of them with subsections."""
    from foveate import Document

    return Document.from_sections(
        "Fish of the sea",
        [
            (
                "Introduction",
                "Fish live in all seas. They breathe through gills. We describe the fish of the "
                "sea, from the cod of cold waters to the eel that crosses the ocean.",
            ),
            (
                "Species",
                "Some fish are of use to people.",
                [
                    ("Cod", "The cod is a fish of cold seas. It eats herring. It was cheap once."),
                    ("Eel", "The eel is a long fish. Its larvae drift across the ocean."),
                ],
            ),
            ("Boats", "Trawlers drag a net behind them. Diesel is dear. The harbour is small."),
        ],
    )
