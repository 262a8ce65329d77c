import numpy as np
import pytest
import torch
import torch.nn.functional as F

from classification import (
    Classifier,
    by_quarter,
    is_preferred,
    is_right,
    redrawn_means,
    single_and_pairs,
)
from classification_data import (
    VERSIONS,
    first_sections,
    first_tokens,
    in_pseudo_sections,
    version,
)
from document_nodes import DOCUMENT, SECTION, SENTENCE, TOKEN, Nodes, join_sentences
from small_encoders import SmallEncoder, SmallHAT, batches, dense, epochs, longformer


def a_document(*sections: int) -> Nodes:
    """Return a document of sections with this many sentences, each of two tokens."""
    types = [DOCUMENT]
    for number in sections:
        types += [SECTION, *([SENTENCE, TOKEN, TOKEN] * number)]
    kinds = np.array(types, np.int8)
    ids = np.where(kinds == TOKEN, 10 + np.cumsum(kinds == TOKEN), kinds).astype(np.uint16)
    return ids, kinds


def parts(nodes: Nodes, kind: int) -> list[tuple[int, ...]]:
    """Return the tokens below each anchor of a kind."""
    ids, types = nodes
    starts = np.flatnonzero(types == kind)
    return [
        tuple(its[kinds == TOKEN].tolist())
        for its, kinds in zip(np.split(ids, starts)[1:], np.split(types, starts)[1:], strict=True)
    ]


@pytest.mark.parametrize("seed", range(5))
def test_versions_have_the_same_words(seed: int) -> None:
    nodes = a_document(3, 4, 2, 5, 3)
    sections = parts(nodes, SECTION)
    rng = np.random.default_rng(seed)
    moved, mixed = (version(nodes, name, rng) for name in VERSIONS[1:])
    assert parts(moved, SECTION)[0] == sections[0]
    assert parts(moved, SECTION) != sections
    assert sorted(parts(moved, SECTION)) == sorted(sections)
    assert parts(mixed, SECTION) != sections
    assert [sorted(its) for its in parts(mixed, SECTION)] == [sorted(its) for its in sections]
    assert sorted(parts(mixed, SENTENCE)) == sorted(parts(nodes, SENTENCE))
    assert version(nodes, "true", rng) is nodes


def test_sections_are_kept_whole() -> None:
    nodes = a_document(3, 4, 2)  # 6, 8 and 4 tokens
    assert parts(first_sections(nodes, 14), SECTION) == parts(nodes, SECTION)[:2]
    assert parts(first_sections(nodes, 17), SECTION) == parts(nodes, SECTION)[:2]
    assert parts(first_sections(nodes, 18), SECTION) == parts(nodes, SECTION)
    assert parts(first_tokens(nodes, 7), SENTENCE)[-1] == (17,)


def test_pseudo_sections_do_not_know_the_true_ones() -> None:
    nodes = a_document(30, 10, 5)
    assert [len(its) for its in parts(in_pseudo_sections(nodes), SECTION)] == [64, 26]
    assert parts(in_pseudo_sections(nodes), SENTENCE) == parts(nodes, SENTENCE)


def test_sentences_of_a_section_share_anchors_up_to_a_number_of_tokens() -> None:
    ids, types = join_sentences(*a_document(5, 1), most=4)
    sentence = [SENTENCE, TOKEN, TOKEN]
    expected = [DOCUMENT, SECTION, *(2 * [*sentence, TOKEN, TOKEN]), *sentence, SECTION, *sentence]
    assert types.tolist() == expected
    assert len(ids) == len(types)


def test_accuracy_compares_the_true_version_with_the_other() -> None:
    # A document whose true version looks true, and whose shuffled sections look true as well.
    logits = np.array([[[2.0, 1.0, 0.0], [2.0, 1.0, 5.0], [0.0, 9.0, 1.0]]])
    assert is_right(logits, "sections").tolist() == [0.5]
    assert is_right(logits, "sentences").tolist() == [1.0]
    assert is_right(np.zeros((1, 3, 3)), "sections").tolist() == [0.5]
    assert is_preferred(logits, "sections").tolist() == [0.5]
    logits[0, 1, 1] = 1.5
    assert is_right(logits, "sections").tolist() == [0.5]
    assert is_preferred(logits, "sections").tolist() == [1.0]


def test_counted_words_differ_from_pairs_and_quarters() -> None:
    nodes = a_document(2)
    assert len(set(single_and_pairs(nodes))) == 4 + 3
    assert [number % 4 for number in by_quarter(nodes)] == [0, 1, 2, 3]


ENCODERS = {
    "HDT": lambda: SmallEncoder(300, layers=3, width=64),
    "dense": lambda: SmallEncoder(300, layers=3, width=64, attend=dense),
    "sentences marked": lambda: SmallEncoder(
        300, layers=3, width=64, attend=dense, marked=[SECTION, SENTENCE]
    ),
    "Longformer": lambda: SmallEncoder(300, layers=3, width=64, attend=longformer),
    "HAT": lambda: SmallHAT(300, layers=3, width=64),
}


@pytest.mark.parametrize("name", ENCODERS)
def test_documents_do_not_depend_on_batch_mates(name: str) -> None:
    torch.manual_seed(0)
    model = ENCODERS[name]().eval()
    documents = [a_document(80), a_document(2, 1)]
    together, alone = model.read(documents, "cpu"), model.read(documents[1:], "cpu")
    with torch.no_grad():
        both = model(together.ids, together.structure)[together.places]
        one = model(alone.ids, alone.structure)[alone.places]
    torch.testing.assert_close(both[together.sizes[0] :], one, atol=1e-5, rtol=1e-4)
    assert together.types.tolist().count(DOCUMENT) == 2
    tokens = [ids[types == TOKEN].tolist() for ids, types in documents]
    read = together.ids[together.places][torch.from_numpy(together.types == TOKEN)]
    assert read.tolist() == [*tokens[0], *tokens[1]]


def test_longformer_sees_a_window_and_the_first_token() -> None:
    q, k, v = torch.randn(3, 2, 700, 1, 16, dtype=torch.float64)
    used = torch.ones(2, 700, dtype=torch.bool)
    used[1, 600:] = False
    distance = (torch.arange(700)[:, None] - torch.arange(700)).abs()
    visible = (distance <= 256) | (torch.arange(700) == 0) | (torch.arange(700) == 0)[:, None]
    mask = (visible & used[:, None])[:, None]
    x = (its.transpose(1, 2) for its in (q, k, v))
    expected = F.scaled_dot_product_attention(*x, attn_mask=mask).transpose(1, 2)
    torch.testing.assert_close(longformer(q, k, v, used)[used], expected[used])


def test_classifier_takes_a_mean_and_a_root_of_each_document() -> None:
    torch.manual_seed(0)
    documents = [a_document(20), a_document(2, 1)]
    for new in ENCODERS.values():
        model = Classifier(new(), 512, 64, pseudo=False).eval()
        with torch.no_grad():
            both, one = model(documents), model(documents[1:])
        torch.testing.assert_close(both[1:], one, atol=1e-5, rtol=1e-4)
        assert not torch.allclose(both[0], both[1])


def test_batches_fit_and_continue() -> None:
    sizes = [5, 3, 9, 20, 1]
    drawn = list(batches(sizes, 10, np.random.default_rng(0)))
    assert sorted(i for batch in drawn for i in batch) == list(range(5))
    assert all(len(batch) == 1 or sum(sizes[i] for i in batch) <= 10 for batch in drawn)
    begun, continued = epochs(sizes, 10, 0, 0), epochs(sizes, 10, 0, 7)
    assert [next(begun) for _ in range(9)][7:] == [next(continued) for _ in range(2)]


def test_intervals_know_that_pretrainings_differ() -> None:
    rng = np.random.default_rng(0)
    ours, theirs = np.ones((3, 200)), np.zeros((3, 200))
    np.testing.assert_allclose(redrawn_means(ours, theirs, rng), 1)
    theirs[0] = 3.0  # one of three pretrainings
    drawn = redrawn_means(ours, theirs, rng)
    np.testing.assert_allclose(drawn.mean(), 0, atol=0.05)
    assert set(drawn.round(6).tolist()) == {1.0, 0.0, -1.0, -2.0}
    noisy = rng.random((3, 200))
    drawn = redrawn_means(noisy, noisy, rng)
    assert np.percentile(drawn, 2.5) < 0 < np.percentile(drawn, 97.5)
