"""Documents of which only parts are read."""

import pytest
import torch

from foveate import Document, Encoder
from foveate.cache import Cache
from foveate.inference.runner import DocumentVectors
from tests.numerics import relative_error
from tests.tree_bert import save_tree_bert

SECTIONS = [
    ("Ice", "the whale swims . a ship follows ."),
    ("Home", "home again . the ice ."),
    ("Ship", "a whale ."),
]


@pytest.fixture
def encoder(tmp_path, tokenizer):
    save_tree_bert(tmp_path / "model", tokenizer, token_size=8)
    return Encoder.from_pretrained(tmp_path / "model")


@pytest.fixture
def document():
    return Document.from_sections("the whale", SECTIONS, language="en")


def test_parts_are_encoded_as_in_the_whole(encoder, document):
    whole = encoder.encode(document)
    number = len(whole.sentences)
    encoder.forget(document)

    [some] = encoder.encode_parts(
        [document], [[range(number - 1, number)]], encoder.known([document])
    )
    assert some.read.tolist() == [False] * (number - 1) + [True]
    assert not some.sentences[:-1].any()
    assert some.num_tokens[:-1].sum() == 0

    first = range(sum(1 for _ in document.sections[0].paragraphs[0].sentences))
    middle = range(first.stop, number - 1)
    [all_of_it] = encoder.encode_parts([document], [[first, middle]], encoder.known([document]))
    assert all_of_it.read.all()
    assert relative_error(all_of_it.sentences, whole.sentences) < 1e-5
    assert torch.equal(all_of_it.num_tokens, whole.num_tokens)
    assert (all_of_it.tokens == whole.tokens).float().mean() > 0.99  # signs of entries near zero


def test_parts_are_kept_until_the_whole_is_read(encoder, document, tmp_path):
    encoder.cache = Cache(tmp_path / "cache")
    [nothing] = encoder.known([document])
    assert nothing is None
    [some] = encoder.encode_parts([document], [[range(0, 1)]], encoder.known([document]))
    encoder.forget(document)
    [known] = encoder.known([document])
    assert known.read.tolist() == some.read.tolist()
    assert torch.equal(known.sentences, some.sentences)
    assert torch.equal(known.tokens, some.tokens)
    whole = encoder.encode(document)
    assert whole.read is None
    assert encoder.known([document]) == [whole]


def test_what_is_not_read_takes_no_room(encoder, document):
    [some] = encoder.encode_parts([document], [[range(0, 1)]], encoder.known([document]))
    content = some.to_bytes()
    assert DocumentVectors.from_bytes(content).sentences.shape == some.sentences.shape
    assert len(content) < len(encoder.encode(document).to_bytes())
