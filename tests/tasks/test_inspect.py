import pytest
import torch
from hypothesis import given
from transformers import AutoTokenizer

from foveate import Document
from foveate.inference.encoder import default_model_path
from foveate.ops.tree_attention.reference import tree_mask
from foveate.preprocessing.hdt import HDTProcessor
from foveate.tasks.inspect import attended_pairs, inspect
from tests.trees import forests


@pytest.fixture(scope="module")
def tokenizer():
    return AutoTokenizer.from_pretrained(default_model_path())


@given(forests())
def test_pairs_are_counted_as_the_definition_has_them(parents):
    parents = torch.tensor(parents)
    mask = tree_mask(parents, {"parent", "siblings", "children"})
    assert attended_pairs(parents) == int(mask.sum())


def test_the_outline_adds_up(sea, tokenizer):
    inspection = inspect(sea, tokenizer=tokenizer)
    rows = {row.path[-1]: row for row in inspection.sections}
    assert [row.path for row in inspection.sections] == [path for path, _ in sea.walk()]
    assert [row.depth for row in inspection.sections] == [1, 1, 2, 2, 1]
    assert (inspection.depth, inspection.sentences) == (2, 12)
    species, cod, eel = rows["Species"], rows["Cod"], rows["Eel"]
    assert species.tokens == species.own_tokens + cod.tokens + eel.tokens
    assert (species.sentences, cod.sentences, eel.sentences) == (6, 3, 2)
    assert eel.tokens == count(
        tokenizer, "Eel The eel is a long fish. Its larvae drift across the ocean."
    )
    outermost = [row.tokens for row in inspection.sections if row.depth == 1]
    assert inspection.tokens == count(tokenizer, sea.title) + sum(outermost)


def test_deep_nesting_adds_up(tokenizer):
    parts = ("Leaf", "One two.")
    for depth in range(60):
        parts = (f"{depth}", "Three.", [parts])
    inspection = inspect(Document.from_sections("", [parts]), tokenizer=tokenizer)
    assert inspection.depth == 61
    assert inspection.sections[0].sentences == 61
    assert inspection.sections[0].tokens == inspection.tokens
    assert inspection.tokens == sum(row.own_tokens for row in inspection.sections)


def test_the_longest_sentence_and_its_place(sea, tokenizer):
    longest = inspect(sea, tokenizer=tokenizer).longest
    assert longest.sentence.text.startswith("We describe the fish")
    assert longest.tokens == count(tokenizer, longest.sentence.text)
    assert (longest.place.path, longest.place.index) == (("Introduction",), 2)


def test_the_tree_is_the_one_that_models_attend_along(sea, tokenizer):
    batch = HDTProcessor(tokenizer, levels=None)(sea)
    assert torch.equal(inspect(sea, tokenizer=tokenizer).parents, batch["parent_ids"][0])


def test_density_is_the_share_of_pairs(sea, tokenizer):
    inspection = inspect(sea, tokenizer=tokenizer)
    mask = tree_mask(inspection.parents, {"parent", "siblings", "children"})
    assert inspection.density == pytest.approx(float(mask.double().mean()))
    assert inspection.nodes == len(inspection.parents)


def count(tokenizer, text):
    return len(tokenizer.tokenize(text))
