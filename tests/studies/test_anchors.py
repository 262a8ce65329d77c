import numpy as np
import torch

from anchors import CUT_FROM, contrast, cut, mean_by, measures, ranks_of, save_bm25, scores
from document_nodes import DOCUMENT, SECTION, SENTENCE, TOKEN, Nodes
from small_encoders import Documents, SmallEncoder, trees


def a_document(sentences: list[int], tokens: int = 3, first: int = 10) -> Nodes:
    """Return a document with this many sentences in each section; its tokens count up."""
    types = [DOCUMENT]
    for number in sentences:
        types += [SECTION, *([SENTENCE, *[TOKEN] * tokens] * number)]
    kinds = np.array(types, np.int8)
    ids = np.where(kinds == TOKEN, first + np.cumsum(kinds == TOKEN), kinds).astype(np.uint16)
    return ids, kinds


def test_cuts_are_whole_sentences_of_one_section() -> None:
    nodes = a_document([6, CUT_FROM - 1, 9])
    (ids, types), cuts = cut(nodes, np.random.default_rng(0))
    assert sorted(section for section, _ in cuts) == [0, 2]
    left = set(ids[types == TOKEN].tolist())
    for section, (cut_ids, cut_types) in cuts:
        assert cut_types[:3].tolist() == [DOCUMENT, SECTION, SENTENCE]
        words = cut_ids[cut_types == TOKEN]
        assert len(words) == 3 * (cut_types == SENTENCE).sum()
        assert (np.diff(words) == 1).all()
        # The first token of the first section is 11; the third begins after 9 sentences.
        assert words.min() >= (11 if section == 0 else 11 + 27)
        assert not left & set(words.tolist())
        left |= set(words.tolist())
    assert left == set(nodes[0][nodes[1] == TOKEN].tolist())


def test_contrast_asks_for_what_is_its_own() -> None:
    torch.manual_seed(0)
    model = SmallEncoder(200, layers=1, width=64, position_embedding_type="hierarchical")
    documents = [a_document([6, 8], first=start) for start in (10, 80)]
    optimizer = torch.optim.Adam(
        [p for n, p in model.named_parameters() if "predictions" not in n], lr=3e-3
    )
    for of_tokens in (False, True):
        losses = []
        for step in range(15):
            loss = contrast(model, documents, np.random.default_rng(step), of_tokens=of_tokens)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses.append(float(loss.detach()))
        assert losses[-1] < losses[0]


def test_scores_by_each_vector() -> None:
    vectors = torch.eye(4)
    papers = {"section": (vectors, torch.tensor([0, 0, 1, 2]))}
    queries = {"section": (torch.stack([vectors[1], vectors[2], vectors[3]]), torch.arange(3))}
    best = scores(papers, queries, "best section anchor")
    assert best.shape == (3, 3)
    assert ranks_of(best).tolist() == [1, 1, 1]


def test_equal_scores_rank_last() -> None:
    assert ranks_of(torch.zeros(4, 4)).tolist() == [4, 4, 4, 4]
    found = measures(np.array([1, 2, 20]))
    assert found.tolist() == [[100, 100, 100], [0, 100, 50], [0, 0, 5]]


def test_means_count_from_the_start() -> None:
    means, owners = mean_by(torch.tensor([[1.0], [3.0], [5.0]]), torch.tensor([0, 0, 1]), 2, 7)
    assert means.flatten().tolist() == [2, 5]
    assert owners.tolist() == [7, 8]


def test_bm25_finds_rare_words(tmp_path) -> None:
    papers = [a_document([2], first=start) for start in (10, 30, 50)]

    class Few(Documents):
        def __init__(self) -> None:
            self.vocabulary = 100

        def part(self, name: str) -> list[Nodes]:
            return papers if name == "papers" else [(ids[:6], types[:6]) for ids, types in papers]

    save_bm25(tmp_path, Few())
    assert np.load(tmp_path / "BM25.npy").tolist() == [[1, 1, 1], [1, 1, 1]]


def test_states_stand_where_the_batch_says() -> None:
    torch.manual_seed(0)
    model = SmallEncoder(200, layers=2, width=64).eval()
    documents = [a_document([2, 3], first=10), a_document([1, 4], first=60)]
    together, alone = trees(documents, "cpu"), trees(documents[1:], "cpu")
    with torch.no_grad():
        both = model(together.ids, together.structure)[together.places]
        one = model(alone.ids, alone.structure)[alone.places]
    torch.testing.assert_close(both[len(documents[0][0]) :], one)
