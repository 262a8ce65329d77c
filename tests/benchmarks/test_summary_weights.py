import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("sumy")
rouge_scorer = pytest.importorskip("rouge_score.rouge_scorer")

from summary_weights import Text, Weights, choose, rouge, shared_trigrams  # noqa: E402

from foveate.tasks import summarize  # noqa: E402

texts = st.lists(st.sampled_from(["cod", "eel", "swim", "eat", "the"]), min_size=1, max_size=30)


@given(texts, texts)
def test_rouge_is_that_of_rouge_score(words, human):
    scorer = rouge_scorer.RougeScorer(["rouge1", "rouge2", "rougeL"])
    expected = scorer.score(" ".join(human), " ".join(words))
    assert rouge(words, human) == pytest.approx(
        [100 * expected[name].fmeasure for name in ("rouge1", "rouge2", "rougeL")]
    )


def test_sentences_are_those_that_summarize_chooses():
    generator = torch.Generator().manual_seed(0)
    for _ in range(20):
        vectors = torch.nn.functional.normalize(torch.randn(30, 4, generator=generator), dim=-1)
        terms = torch.rand(5, 30, generator=generator)
        costs = torch.randint(5, 60, (30,), generator=generator)
        words = [[str(i)] for i in range(30)]
        text = Text(terms, vectors @ vectors.T, shared_trigrams(words), costs, words, [])
        weights = Weights(closeness=0.5)
        scores = torch.tensor(weights[:5]) @ terms
        assert choose(text, weights) == summarize.choose(
            scores, vectors, [" ".join(its) for its in words], costs, 150
        )


def test_shared_trigrams_are_counted_by_row():
    sentences = [["a", "b", "c", "d"], ["x", "a", "b", "c"], ["b", "a"]]
    expected = torch.tensor([[1, 0.5, 0], [0.5, 1, 0], [0, 0, 0]])
    assert torch.equal(shared_trigrams(sentences), expected)
