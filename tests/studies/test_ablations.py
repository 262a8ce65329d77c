import json

import pytest
import torch
from transformers import AutoTokenizer

import report
from ablations import LONGER, PAGE, UNTRAINED, VARIANTS, isolated_tree, rank_correlation, tables
from foveate import Document
from foveate.inference import default_model_path
from foveate.preprocessing import TreeBertProcessor
from foveate.preprocessing.tree import outline
from foveate.training import Recipe

RESULTS = report.STUDIES / "results" / "ablations.json"


def test_without_exchange_every_sentence_is_a_tree():
    processor = TreeBertProcessor(AutoTokenizer.from_pretrained(default_model_path()))
    anchors = outline(Document.from_sections("", [("", "Cod swim. They eat.")]))
    nodes, owners = isolated_tree(processor, anchors)
    whole, expected_owners = processor.tree(anchors)
    assert owners == expected_owners
    assert torch.equal(nodes.input_ids, whole.input_ids)
    is_anchor = whole.node_types >= 1
    assert is_anchor.sum() > 2
    assert (nodes.parent_ids[is_anchor] == -1).all()
    assert torch.equal(nodes.parent_ids[~is_anchor], whole.parent_ids[~is_anchor])


@pytest.mark.parametrize("overrides", [*VARIANTS.values(), *LONGER.values()])
def test_variants_are_valid_recipes(overrides):
    assert Recipe.load("tree-bert", overrides).objective.temperature > 0


def test_rank_correlation():
    x = torch.tensor([0.1, 0.5, 0.3, 0.9])
    assert rank_correlation(x, x**3) == pytest.approx(1)
    assert rank_correlation(x, -x) == pytest.approx(-1)


def test_the_page_has_the_saved_results():
    runs = json.loads(RESULTS.read_text(encoding="utf-8"))["results"]["runs"]
    assert set(runs) == {UNTRAINED, *VARIANTS, *LONGER}
    page = PAGE.read_text(encoding="utf-8")
    assert all(
        f"<!-- table: {name} -->\n\n{text}\n" in page for name, text in tables(RESULTS).items()
    )
