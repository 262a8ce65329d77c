from math import log
from typing import get_args

import bm25s
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from foveate import Document, search
from foveate.inference import DocumentVectors
from foveate.inference.encoder import Context
from foveate.tasks.bm25 import Words, bm25
from foveate.tasks.relevance import match, relevance
from foveate.tasks.weights import WEIGHTS

EAST, NORTH = torch.tensor([1.0, 0.0]), torch.tensor([0.0, 1.0])


class Compass:
    """Encodes every text as one direction."""

    unrelated = torch.zeros(1, 2)

    def __init__(self, direction, context="sentence"):
        self.direction = direction
        self.context = context

    def encode_queries(self, texts):
        return self.direction.expand(len(texts), -1)


@pytest.fixture
def letters():
    """A document of two sections, its first sentence and its first section in the east."""
    document = Document.from_sections("", [("A", ["a b.", "c d."]), ("B", ["e f.", "g h."])])
    vectors = DocumentVectors(
        document=NORTH,
        sections=torch.stack([EAST, NORTH]),
        sentences=torch.stack([EAST, 2 * NORTH, NORTH, NORTH]),  # no vector need have unit length
    )
    return document, vectors


def test_parts_match_by_meaning(letters):
    document, vectors = letters
    found = match("?", [document], [vectors], Compass(3 * EAST))
    assert found.sentences[0].tolist() == [[1, 1, 0, 0], [0, 1, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]]
    assert found.sections[0].tolist() == [[1, 1, 0], [0, 0, 0]]
    assert found.documents.tolist() == [[1, 0]]


def test_parts_match_by_words(letters):
    document, vectors = letters
    found = match("g", [document, document], [vectors, vectors], Compass(NORTH))
    sentence, section = found.sentences[0][:, 2], found.sentences[0][:, 3]
    assert (sentence > 0).tolist() == [False, False, False, True]
    assert (section > 0).tolist() == [False, False, True, True]
    assert found.sections[0][:, 2].tolist() == [0, section[2].item()]
    assert (found.documents[:, 1] > 0).all()
    assert torch.equal(found.sentences[0], found.sentences[1])


def test_other_forms_of_a_word_match_in_the_language_of_the_documents():
    document = Document.from_sections(
        "", [("Boote", ["Das Haus."]), ("", ["Der Hund."])], language="de"
    )
    vectors = DocumentVectors(NORTH, NORTH.expand(2, -1), NORTH.expand(2, -1))
    for query in ("Häuser", "Boot"):
        [scores] = match(query, [document], [vectors], Compass(NORTH)).sentences
        assert (scores[:, 2:].sum(1) > 0).tolist() == [True, False]


def test_a_section_of_subsections_has_no_closest_sentence():
    document = Document.from_sections("", [("A", "", [("B", ["a b."])])])
    vectors = DocumentVectors(NORTH, torch.stack([EAST, NORTH]), torch.stack([EAST]))
    [sections] = match("?", [document], [vectors], Compass(EAST)).sections
    assert sections.tolist() == [[0, 1, 0], [1, 0, 0]]


def test_documents_match_by_the_best_sentence_for_each_of_the_query():
    class TwoSentences(Compass):
        def encode_queries(self, texts):
            assert texts == ["One. Two.", "One.", "Two."]
            return torch.stack([EAST + NORTH, EAST, NORTH])

    document = Document.from_sections("", [("A", ["a.", "b.", "c."])])
    both = DocumentVectors(NORTH, NORTH[None], torch.stack([EAST, NORTH, NORTH]))
    one = DocumentVectors(NORTH, NORTH[None], torch.stack([EAST, EAST, EAST + NORTH]))
    found = match("One. Two.", [document] * 2, [both, one], TwoSentences(EAST))
    assert found.documents[:, 0].tolist() == pytest.approx([1, (1 + 0.5**0.5) / 2])


class Squeezed:
    """An encoder whose cosines c are s c + (1 - s)."""

    def __init__(self, encoder, share):
        self.encoder = encoder
        self.context = encoder.context
        self.share = share
        self.unrelated = self.squeeze(encoder.unrelated)

    def squeeze(self, vectors):
        added = torch.full((len(vectors), 1), (1 - self.share) ** 0.5)
        return torch.cat([self.share**0.5 * vectors, added], dim=1)

    def encode_queries(self, texts):
        return self.squeeze(self.encoder.encode_queries(texts))


@pytest.mark.parametrize("share", [0.7, 0.25])
def test_scores_do_not_depend_on_the_spread_of_a_models_cosines(encoder, share):
    fish = [("Cod", "Cod swim in the sea. They eat herring."), ("Eel", "Eels are long.")]
    documents = [
        Document.from_sections("Fish", fish),
        Document.from_text("Salt is white. It is mined."),
    ]
    vectors = encoder.encode(documents)
    squeezed = Squeezed(encoder, share)
    of_squeezed = [
        DocumentVectors(
            its.document, squeezed.squeeze(its.sections), squeezed.squeeze(its.sentences)
        )
        for its in vectors
    ]
    query = "What do cod eat? Is it salt?"
    expected = match(query, documents, vectors, encoder)
    found = match(query, documents, of_squeezed, squeezed)
    for ours, theirs in zip(found, expected, strict=True):
        for x, y in zip(ours, theirs, strict=True):
            torch.testing.assert_close(x, y, atol=1e-5, rtol=0)


def test_the_text_of_a_query_scores_1_and_unrelated_ones_about_0(encoder):
    texts = ["Cod swim in the sea.", "The minister resigned.", "Eggs are oval."]
    document = Document.from_sections("", [("", text) for text in texts])
    [scores] = match("Cod swim in the sea.", [document], [encoder.encode(document)], encoder)[0]
    assert scores[0, 0] == pytest.approx(1, abs=0.3)  # the encoder reads it in its document
    assert scores[1:, 0].abs().max() < 0.3


@pytest.mark.parametrize(("query", "kind"), [("g", "topics"), ("Is it g?", "sentences")])
@pytest.mark.parametrize("context", get_args(Context))
def test_relevance_is_a_weighted_mean(letters, context, query, kind):
    document, vectors = letters
    encoder = Compass(EAST, context)
    [scores] = relevance(query, [document], [vectors], encoder)
    [features] = match(query, [document], [vectors], encoder).sentences
    weights = WEIGHTS[context]
    expected = features.double() @ torch.tensor(getattr(weights, kind), dtype=torch.float64)
    assert scores.tolist() == pytest.approx(expected.tolist(), abs=1e-5)
    assert scores[0] == max(scores)
    for level in weights:
        assert sum(level) == pytest.approx(1)
        assert min(level) >= 0


def test_a_rare_word_is_found_among_many_documents(encoder):
    sentences = "A report about topic{}. It says what was done about it this year."
    documents = [Document.from_text(sentences.format(i)) for i in range(60)]
    [hit] = search("topic57", documents, top_k=1, model=encoder)
    assert (hit.document_idx, hit.best.text) == (57, "A report about topic57.")


def test_a_word_of_a_heading_a_title_or_a_file_name_is_found(encoder):
    text = "It says what was done about it this year. Nothing was decided."
    plain = [Document.from_text(text, source=f"report{i}.txt") for i in range(5)]
    named = Document.from_text(text, source="folder/xq17.txt")
    titled = Document.from_text(text, title="Report xq17")
    headed = Document.from_sections("", [("Report xq17", text)])
    for document in (named, titled, headed):
        [hit] = search("xq17", [*plain, document], top_k=1, model=encoder)
        assert hit.document_idx == len(plain)


@given(st.lists(st.lists(st.sampled_from("abcd"), max_size=6), min_size=1, max_size=6))
def test_scores_are_between_0_and_1_and_those_without_a_word_score_0(texts):
    words = Words(map(" ".join, texts))
    scores = bm25(words.count(["a", "b", "z"]), words.lengths)
    assert scores.shape == (len(texts),)
    for text, score in zip(texts, scores.tolist(), strict=True):
        assert 0 <= score < 1
        assert (score > 0) == bool({"a", "b"} & set(text))


@pytest.mark.parametrize(("level", "power"), [("sentence", 1), ("section", 1), ("document", 0)])
@given(st.lists(st.lists(st.sampled_from("abcde"), min_size=1, max_size=9), min_size=2, max_size=9))
def test_scores_are_those_of_bm25s_times_a_power_of_rarity(level, power, texts):
    library = bm25s.BM25(method="lucene", k1=1.2, b=0.75)
    library.index([[*text, "filler"] for text in texts], show_progress=False)
    rarest = log(2 * len(texts) + 2)
    expected = torch.zeros(len(texts), dtype=torch.float64)
    for term in ("a", "b", "filler"):
        having = len(texts) if term == "filler" else sum(term in text for text in texts)
        rarity = log(1 + (len(texts) - having + 0.5) / (having + 0.5)) / rarest
        expected += torch.tensor(library.get_scores([term])).double() * rarity**power / rarest / 3
    words = Words(" ".join([*text, "filler"]) for text in texts)
    scores = bm25(words.count(["a", "b", "filler"]), words.lengths, level).double()
    assert (scores - expected).norm() < 1e-5 * expected.norm()


def test_rare_words_count_for_more():
    words = Words(["rare word", *["usual word"] * 9])
    scores = bm25(words.count(["rare", "usual"]), words.lengths)
    assert scores[0] > 2 * scores[1]


def test_a_query_without_words_matches_nothing():
    words = Words(["some words", "more"])
    assert bm25(words.count([]), words.lengths).tolist() == [0, 0]
