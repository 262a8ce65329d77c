import pytest
import torch

from ablations import PAGE, VARIANTS, rank_correlation, tables
from foveate.training import Recipe


@pytest.mark.parametrize("overrides", VARIANTS.values())
def test_variants_are_valid_recipes(overrides):
    assert Recipe.load("tree-bert", overrides).objective.temperature > 0


def test_rank_correlation():
    x = torch.tensor([0.1, 0.5, 0.3, 0.9])
    assert rank_correlation(x, x**3) == pytest.approx(1)
    assert rank_correlation(x, -x) == pytest.approx(-1)


def test_the_page_has_the_saved_results():
    page = PAGE.read_text(encoding="utf-8")
    assert all(f"<!-- table: {name} -->\n\n{text}\n" in page for name, text in tables().items())
