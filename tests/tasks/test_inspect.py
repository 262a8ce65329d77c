import pytest
import torch
from hypothesis import given
from transformers import AutoTokenizer

from foveate import Document
from foveate.inference import default_model_path
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
    inspection = inspect(sea, model=tokenizer)
    sections = {section.span.text: section for section in inspection.sections}
    assert [section.span.path for section in inspection.sections] == [
        path for path, _ in sea.walk()
    ]
    assert [section.depth for section in inspection.sections] == [1, 1, 2, 2, 1]
    assert (inspection.depth, inspection.num_sentences) == (2, 12)
    species, cod, eel = sections["Species"], sections["Cod"], sections["Eel"]
    assert species.num_tokens == species.num_own_tokens + cod.num_tokens + eel.num_tokens
    assert (species.num_sentences, cod.num_sentences, eel.num_sentences) == (6, 3, 2)
    assert eel.num_tokens == count(
        tokenizer, "Eel The eel is a long fish. Its larvae drift across the ocean."
    )
    outermost = [section.num_tokens for section in inspection.sections if section.depth == 1]
    assert inspection.num_tokens == count(tokenizer, sea.title) + sum(outermost)


def test_deep_nesting_adds_up(tokenizer):
    parts = ("Leaf", "One two.")
    for depth in range(60):
        parts = (f"{depth}", "Three.", [parts])
    inspection = inspect(Document.from_sections("", [parts]), model=tokenizer)
    assert inspection.depth == 61
    assert inspection.sections[0].num_sentences == 61
    assert inspection.sections[0].num_tokens == inspection.num_tokens
    assert inspection.num_tokens == sum(section.num_own_tokens for section in inspection.sections)


def test_the_longest_sentence_and_its_place(sea, tokenizer):
    inspection = inspect(sea, model=tokenizer)
    longest = inspection.longest
    assert longest.text.startswith("We describe the fish")
    assert inspection.longest_tokens == count(tokenizer, longest.text)
    assert longest.path == ("Introduction",)
    assert sea.text[longest.start : longest.end] == longest.text


def test_the_tree_is_the_one_that_models_attend_along(sea, tokenizer):
    batch = HDTProcessor(tokenizer, levels=None)(sea)
    assert torch.equal(inspect(sea, model=tokenizer).parent_ids, batch["parent_ids"][0])


def test_density_is_the_share_of_pairs(sea, tokenizer):
    inspection = inspect(sea, model=tokenizer)
    mask = tree_mask(inspection.parent_ids, {"parent", "siblings", "children"})
    assert inspection.density == pytest.approx(float(mask.double().mean()))
    assert inspection.num_nodes == len(inspection.parent_ids)


def count(tokenizer, text):
    return len(tokenizer.tokenize(text))
