import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from foveate import Document, search
from foveate.inference import DocumentVectors
from foveate.tasks.bm25 import bm25, count_terms, terms
from foveate.tasks.relevance import relevance

EAST, NORTH = torch.tensor([1.0, 0.0]), torch.tensor([0.0, 1.0])


class Compass:
    """Encodes every text as one direction."""

    def __init__(self, direction):
        self.direction = direction

    def encode_queries(self, texts):
        return self.direction.expand(len(texts), -1)


def test_relevance_is_the_mean_of_closeness_and_words_of_sentence_and_section():
    document = Document.from_sections("", [("A", ["a b.", "c d."]), ("B", ["e f.", "g h."])])
    vectors = DocumentVectors(
        document=NORTH,
        sections=torch.stack([EAST, NORTH]),
        sentences=torch.stack([EAST, 2 * NORTH, NORTH, NORTH]),  # no vector need have unit length
    )
    [scores] = relevance("?", [document], [vectors], Compass(3 * EAST))
    assert scores.tolist() == pytest.approx([0.5, 0.25, 0, 0])
    [scores] = relevance("g", [document], [vectors], Compass(3 * EAST))
    assert scores[0] == pytest.approx(0.5)
    assert 0 < scores[2] < scores[3] < 0.5
    assert scores[1] == pytest.approx(0.25)


def test_a_rare_word_is_found_among_many_documents(encoder):
    sentences = "A report about topic{}. It says what was done about it this year."
    documents = [Document.from_text(sentences.format(i)) for i in range(60)]
    [hit] = search("topic57", documents, top_k=1, model=encoder)
    assert (hit.document_idx, hit.span.text) == (57, "A report about topic57.")


def test_a_word_of_a_heading_a_title_or_a_file_name_is_found(encoder):
    text = "It says what was done about it this year. Nothing was decided."
    plain = [Document.from_text(text, source=f"report{i}.txt") for i in range(5)]
    named = Document.from_text(text, source="folder/xq17.txt")
    titled = Document.from_text(text, title="Report xq17")
    headed = Document.from_sections("", [("Report xq17", text)])
    for document in (named, titled, headed):
        [hit] = search("xq17", [*plain, document], top_k=1, model=encoder)
        assert hit.document_idx == len(plain)


def test_terms_are_words_identifiers_and_pairs_of_characters():
    assert terms("Topic57, foo_bar(x) and C++ or C#!") == (
        ["topic57", "foo_bar", "foo", "bar", "x", "and", "c++", "or", "c#"]
    )
    assert terms("v1.2.3 of § 3.1: 1,000 or 3.5, a@b.org") == (
        ["v1.2.3", "v1", "of", "§3.1", "1,000", "or", "3.5", "a@b.org", "org"]
    )
    assert terms("L’eau, l'air.") == ["l'eau", "eau", "l'air", "air"]
    assert terms("GPT的模型, 字") == ["gpt", "的模", "模型", "字"]
    assert terms("東京タワーへ") == ["東京", "京タ", "タワ", "ワー", "ーへ"]
    assert terms("…!? ") == []


@given(st.lists(st.lists(st.sampled_from("abcd"), max_size=6), min_size=1, max_size=6))
def test_scores_are_between_0_and_1_and_those_without_a_word_score_0(texts):
    counts, lengths = count_terms(["a", "b", "z"], map(" ".join, texts))
    scores = bm25(counts, lengths)
    assert scores.shape == (len(texts),)
    for text, score in zip(texts, scores.tolist(), strict=True):
        assert 0 <= score < 1
        assert (score > 0) == bool({"a", "b"} & set(text))


def test_rare_words_count_for_more():
    counts, lengths = count_terms(["rare", "usual"], ["rare word", *["usual word"] * 9])
    scores = bm25(counts, lengths)
    assert scores[0] > 2 * scores[1]


def test_a_query_without_words_matches_nothing():
    assert bm25(*count_terms([], ["some words", "more"])).tolist() == [0, 0]
