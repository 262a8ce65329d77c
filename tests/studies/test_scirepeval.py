import math

import datasets
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from scirepeval import (
    TASKS,
    evaluate_scirepeval,
    find_tasks,
    score_classification,
    score_rankings,
    score_regression,
    tasks_on_hub,
)
from scirepeval_data import Label
from tests.studies.papers import paper, write_labels, write_lines, write_tasks


class Subjects:
    """Vectors in which the subject of a paper can be told; counts what it encodes."""

    def __init__(self):
        self.seen = []

    def encode_papers(self, papers):
        return self.encode_queries([paper.text for paper in papers])

    def encode_queries(self, queries):
        self.seen += queries
        about = ("galaxy", "stars", "quasars")
        vectors = [[float(any(w in text for w in about)), len(text) / 1e4] for text in queries]
        return torch.tensor([[1 - a, a, b] for a, b in vectors]).view(-1, 3)


@pytest.fixture
def tasks(tmp_path):
    return write_tasks(tmp_path / "tasks")


VECTORS = {
    "q": torch.tensor([1.0, 0.0]),
    "near": torch.tensor([2.0, 1.0]),  # distance √2, cosine 2/√5
    "aligned": torch.tensor([9.0, 0.0]),  # distance 8, cosine 1
    "far": torch.tensor([-1.0, 0.0]),  # distance 2, cosine -1
}


def test_rankings_by_hand():
    relevance = {"near": 0.0, "aligned": 2.0, "far": 1.0}
    by_distance = score_rankings(VECTORS, {"q": relevance})  # near, far, aligned
    ideal = 2 + 1 / math.log2(3)
    assert by_distance["MAP"] == pytest.approx(100 * (1 / 2 + 2 / 3) / 2)
    assert by_distance["nDCG"] == pytest.approx(100 * (1 / math.log2(3) + 2 / 2) / ideal)
    by_cosine = score_rankings(VECTORS, {"q": relevance}, "cosine")  # aligned, near, far
    assert by_cosine["MAP"] == pytest.approx(100 * (1 + 2 / 3) / 2)
    assert by_cosine["nDCG"] == pytest.approx(100 * (2 + 1 / 2) / ideal)


def trec_scores(ranked):
    """AP and nDCG of relevances in ranked order, as trec_eval defines them."""
    hits = [i for i, relevance in enumerate(ranked) if relevance]
    precision = [(number + 1) / (i + 1) for number, i in enumerate(hits)]

    def gain(relevances):
        return sum(relevance / math.log2(i + 2) for i, relevance in enumerate(relevances))

    return sum(precision) / len(hits), gain(ranked) / gain(sorted(ranked, reverse=True))


@given(st.lists(st.integers(0, 3), min_size=1, max_size=9).filter(any), st.randoms())
def test_rankings_agree_with_the_definitions_of_trec_eval(ranked, random):
    names = [str(i) for i in range(len(ranked))]
    vectors = {"q": torch.zeros(2)} | {name: torch.full((2,), 1.0 + int(name)) for name in names}
    random.shuffle(names)  # the order in the file does not count
    judged = {name: float(ranked[int(name)]) for name in names}
    found = score_rankings(vectors, {"q": judged})
    expected = dict(zip(("MAP", "nDCG"), trec_scores(ranked), strict=True))
    assert found == pytest.approx({name: 100 * score for name, score in expected.items()})


def test_a_query_without_a_relevant_candidate_counts_as_zero():
    """As in trec_eval, whose numbers SciRepEval reports."""
    relevant, nothing = {"near": 1.0, "far": 0.0}, {"near": 0.0, "far": 0.0}
    assert score_rankings(VECTORS, {"q": relevant, "aligned": nothing})["MAP"] == pytest.approx(50)
    with pytest.raises(ValueError, match="no query has a relevant candidate"):
        score_rankings(VECTORS, {"q": nothing})
    with pytest.raises(ValueError, match="distance must be 'euclidean' or 'cosine', got 'dot'"):
        score_rankings(VECTORS, {"q": relevant}, "dot")


def labels(*values):
    return [Label(str(i), (str(value),), float(value)) for i, value in enumerate(values)]


def test_regression_by_hand():
    vectors = {str(i): torch.tensor([float(i)]) for i in range(6)}
    # Learned: the number grows with the vector. Of the 15 pairs, 14 are then in order.
    found = score_regression(vectors, labels(0, 2, 4, 6, 8, 10), labels(0, 1, 2, 4, 3, 5))
    assert found == pytest.approx({"Kendall's τ": 100 * (14 - 1) / 15})
    with pytest.raises(ValueError, match="label of the paper 7 is not a number"):
        score_regression(vectors, labels(1, 2, 3), [Label("7", ("x",), None)])
    with pytest.raises(ValueError, match="there are no labelled papers"):
        score_regression(vectors, [], labels(1, 2))


def test_classification_by_hand():
    vectors = {str(i): torch.tensor([[-1.0, 1.0][i % 2], 0.1]) for i in range(8)}
    train = labels(0, 1, 0, 1, 0, 1, 0, 1)
    # Predicted 0, 1, 0, 1: of class 0 one of two is right, of class 1 two of two and one missed.
    test = labels(0, 1, 1, 1)
    found = score_classification(vectors, train, test)
    zero, one = 2 / (2 + 1), 2 * 2 / (2 + 3)
    assert found["F1 of class 1"] == pytest.approx(100 * one)
    assert found["macro F1"] == pytest.approx(100 * (zero + one) / 2)
    assert found["micro F1"] == pytest.approx(75)
    several = [
        one._replace(names=("even", "0") if i % 2 else ("odd",)) for i, one in enumerate(train)
    ]
    assert score_classification(vectors, several, several, multi_label=True) == {
        "macro F1": 100,
        "micro F1": 100,
    }
    with pytest.raises(
        ValueError, match="a paper has several classes or none: give each one, or set multi_label"
    ):
        score_classification(vectors, several, several)


def test_every_kind_of_task(tasks):
    encoder = Subjects()
    results = evaluate_scirepeval(encoder, find_tasks([tasks]))
    assert [one.task for one in results] == sorted(one.task for one in results)
    assert {one.kind for one in results} == {task.kind for task in TASKS.values()}
    sizes = {one.task: one.num_examples for one in results}
    assert sizes["scidocs_cite"] == 1
    assert sizes["search"] == 2
    assert {sizes[name] for name in ("biomimicry", "cite_count", "drsm", "fos")} == {4}
    for one in results:
        assert next(iter(one.scores)) == TASKS[one.task].metric
        # Of four numbers, two pairs are equal: τ-b is at most 4 / √(6 · 4) without ties.
        best = 100 * 4 / math.sqrt(24) if one.kind == "regression" else 100
        assert one.main_score == pytest.approx(best), one


def test_shared_papers_are_encoded_once(tasks):
    encoder = Subjects()
    sources = find_tasks([tasks / "scidocs_cite", tasks / "scidocs_read"])
    evaluate_scirepeval(encoder, sources)
    assert len(encoder.seen) == 8  # two queries and six candidates, which both tasks have
    encoder.seen.clear()
    evaluate_scirepeval(encoder, find_tasks([tasks / "search"]), limit=1)
    assert len(encoder.seen) == 7


def test_a_contrast_of_distances(tasks):
    class Lengths(Subjects):
        """Vectors of a subject that have the same direction, and different lengths."""

        def encode_queries(self, queries):
            sizes = torch.arange(1, 1 + len(queries))
            return super().encode_queries(queries) * sizes[:, None]

    sources = find_tasks([tasks / "scidocs_cite"])
    [euclidean] = evaluate_scirepeval(Lengths(), sources)
    [cosine] = evaluate_scirepeval(Lengths(), sources, distance="cosine")
    assert cosine.main_score == pytest.approx(100)
    assert euclidean.main_score < 99


def test_papers_that_are_missing_are_left_out_with_a_warning(tasks):
    papers = [paper(i) for i in range(6)]  # 6 and 7 are judged too
    write_lines(tasks / "scidocs_cite" / "meta.jsonl", papers)
    with pytest.warns(UserWarning, match=r"scidocs_cite: 2 of 7 papers are not in .*such as 6"):
        [result] = evaluate_scirepeval(Subjects(), find_tasks([tasks / "scidocs_cite"]))
    assert result.main_score == pytest.approx(100)
    write_lines(tasks / "drsm" / "meta.jsonl", papers[:2])
    with (
        pytest.warns(UserWarning, match="14 of 16"),
        pytest.raises(ValueError, match="drsm: there are no labelled papers"),
    ):
        evaluate_scirepeval(Subjects(), find_tasks([tasks / "drsm"]))


def test_folders_that_are_not_tasks(tasks, tmp_path):
    with pytest.raises(ValueError, match=r"scidocs_view_cite_read holds no task of SciRepEval"):
        find_tasks([tasks / "scidocs_view_cite_read"])
    with pytest.raises(ValueError, match=r"'taks' is neither a folder nor a task of SciRepEval"):
        find_tasks(["taks"])
    (tasks / "search" / "meta.jsonl").unlink()
    with pytest.raises(FileNotFoundError, match=r"there is no .*search/meta\.jsonl, which"):
        find_tasks([tasks])
    (tasks / "drsm" / "train.csv").unlink()
    with pytest.raises(FileNotFoundError, match=r"drsm/train\.csv or .*drsm/train\.jsonl, which"):
        find_tasks([tasks / "drsm"])
    write_labels(tasks / "biomimicry", lambda number: "ab"[number % 2])
    with pytest.raises(ValueError, match="biomimicry: the classes should be 0 and 1"):
        evaluate_scirepeval(Subjects(), find_tasks([tasks / "biomimicry"]))


def test_tasks_on_the_hub(monkeypatch):
    papers = [paper(i) for i in range(16)]
    parts = {"train": range(12), "test": range(12, 16)}
    stored = {
        ("howey/super_scirep", "peer_review_score_hIndex", "evaluation"): papers,
        ("howey/super_scirep", "scidocs_view_cite_read", "evaluation"): papers,
        ("howey/super_scirep_test", "scidocs_view", "test"): [
            {"query_id": "0", "cand_id": str(i), "score": 1 - i % 2} for i in range(1, 6)
        ],
    } | {
        ("howey/super_scirep_test", "hIndex", part): [
            {"paper_id": str(i), "label": 3.0 * (i % 2)} for i in numbers
        ]
        for part, numbers in parts.items()
    }

    def load_dataset(name, config, split):
        return datasets.Dataset.from_list(stored[name, config, split])

    monkeypatch.setattr("datasets.load_dataset", load_dataset)
    ranking, regression = evaluate_scirepeval(Subjects(), tasks_on_hub(["scidocs_view", "hIndex"]))
    assert ranking.scores == pytest.approx({"MAP": 100, "nDCG": 100})
    assert regression.main_score > 60
    assert [source.task for source in find_tasks(["pub_year"])] == ["pub_year"]


def test_the_default_model(tasks, encoder):
    results = evaluate_scirepeval(encoder, find_tasks([tasks]))
    assert len(results) == 7
    for one in results:
        assert one.main_score > 80, one
