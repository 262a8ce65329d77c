from math import log
from typing import get_args

import bm25s
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from foveate import Document, search
from foveate.inference import DocumentVectors
from foveate.inference.runner import Context
from foveate.tasks import relevance
from foveate.tasks.bm25 import Words, bm25
from foveate.tasks.terms import identifiers, terms
from foveate.tasks.weights import rarity, term_weights, weights_for
from tests.numerics import relative_error


def match(query, documents, vectors, encoder):
    encoded = relevance.encode_query(query, documents[0].language, encoder)
    return relevance.match(encoded, documents, vectors)


def score(words, query, level="sentence"):
    """BM25 of texts that are the whole collection."""
    counts = words.count(query)
    weights = term_weights(rarity((counts > 0).sum(0), len(counts)), level)
    return bm25(counts, words.lengths, max(words.lengths.mean(), 1), weights)


EAST, NORTH = torch.tensor([1.0, 0.0]), torch.tensor([0.0, 1.0])


class Compass:
    """Encodes every text as one direction."""

    unrelated = torch.zeros(1, 2)

    def __init__(self, direction, context="sentence"):
        self.direction = direction
        self.context = context

    def encode_query(self, text):
        return self.direction, None


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
    assert found.sentences[0].tolist() == [
        [1, 1, 0, 0, 0],
        [0, 1, 0, 0, 0],
        [0, 0, 0, 0, 0],
        [0, 0, 0, 0, 0],
    ]
    assert found.sections[0].tolist() == [[1, 1, 0], [0, 0, 0]]
    assert found.documents.tolist() == [[1, 0]]


def test_parts_match_by_words(letters):
    document, vectors = letters
    found = match("g", [document, document], [vectors, vectors], Compass(NORTH))
    sentence, section = found.sentences[0][:, 3], found.sentences[0][:, 4]
    assert (sentence > 0).tolist() == [False, False, False, True]
    assert (section > 0).tolist() == [False, False, True, True]
    assert found.sections[0][:, 2].tolist() == [0, section[2].item()]
    assert (found.documents[:, 1] > 0).all()
    assert np.array_equal(found.sentences[0], found.sentences[1])


def test_other_forms_of_a_word_match_in_the_language_of_the_documents():
    document = Document.from_sections(
        "", [("Boote", ["Das Haus."]), ("", ["Der Hund."])], language="de"
    )
    vectors = DocumentVectors(NORTH, NORTH.expand(2, -1), NORTH.expand(2, -1))
    for query in ("Häuser", "Boot"):
        [scores] = match(query, [document], [vectors], Compass(NORTH)).sentences
        assert (scores[:, 3:].sum(1) > 0).tolist() == [True, False]


def test_a_section_of_subsections_has_no_closest_sentence():
    document = Document.from_sections("", [("A", "", [("B", ["a b."])])])
    vectors = DocumentVectors(NORTH, torch.stack([EAST, NORTH]), torch.stack([EAST]))
    [sections] = match("?", [document], [vectors], Compass(EAST)).sections
    assert sections.tolist() == [[0, 1, 0], [1, 0, 0]]


def test_documents_match_by_the_best_sentence_for_each_of_the_query():
    class TwoSentences(Compass):
        def encode_queries(self, texts):
            assert texts == ["One.", "Two."]
            return torch.stack([EAST, NORTH])

    document = Document.from_sections("", [("A", ["a.", "b.", "c."])])
    both = DocumentVectors(NORTH, NORTH[None], torch.stack([EAST, NORTH, NORTH]))
    one = DocumentVectors(NORTH, NORTH[None], torch.stack([EAST, EAST, EAST + NORTH]))
    found = match("One. Two.", [document] * 2, [both, one], TwoSentences(EAST + NORTH))
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

    def encode_query(self, text):
        return self.encode_queries([text])[0], None


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
    for x, y in zip(found.sentences, expected.sentences, strict=True):
        np.testing.assert_allclose(x[:, [0, 1, 3, 4]], y[:, [0, 1, 3, 4]], atol=1e-5)
    for x, y in zip(found.sections, expected.sections, strict=True):
        np.testing.assert_allclose(x, y, atol=1e-5)
    np.testing.assert_allclose(found.documents, expected.documents, atol=1e-5)


def test_the_text_of_a_query_scores_1_and_unrelated_ones_about_0(encoder):
    texts = ["Cod swim in the sea.", "The minister resigned.", "Eggs are oval."]
    document = Document.from_sections("", [("", text) for text in texts])
    [scores] = match("Cod swim in the sea.", [document], [encoder.encode(document)], encoder)[0]
    assert scores[0, 0] == pytest.approx(1, abs=0.3)  # the encoder reads it in its document
    assert np.abs(scores[1:, 0]).max() < 0.3


@pytest.mark.parametrize("query", ["g", "Is it g?"])
@pytest.mark.parametrize("context", get_args(Context))
def test_relevance_is_a_weighted_mean(letters, context, query):
    document, vectors = letters
    encoded = relevance.encode_query(query, "en", Compass(EAST, context))
    [scores] = relevance.relevance(encoded, [document], [vectors])
    [features] = relevance.match(encoded, [document], [vectors]).sentences
    expected = features @ np.array(encoded.weights.sentences)
    assert scores.tolist() == pytest.approx(expected.tolist(), abs=1e-5)
    assert scores[0] == max(scores)


@pytest.mark.parametrize("query", ["g", "Is it g?"])
@pytest.mark.parametrize("context", get_args(Context))
@pytest.mark.parametrize("has_tokens", [False, True])
def test_weights_are_those_of_a_mean(query, context, has_tokens):
    for level in weights_for(query, context, has_tokens=has_tokens):
        assert sum(level) == pytest.approx(1)
        assert min(level) >= 0


def test_tokens_of_a_query_are_compared_with_those_of_sentences(encoder):
    document = Document.from_sections("", [("", ["Cod eat herring.", "Salt is white.", "It is."])])
    [vectors] = encoder.encode([document])
    [scores] = match("Which colour has salt?", [document], [vectors], encoder).sentences
    _, tokens = encoder.encode_query("Which colour has salt?")
    bits = np.unpackbits(vectors.tokens.numpy(), axis=1).astype(np.float64)
    cosines = tokens.numpy() @ (2 * bits - 1).T / bits.shape[1] ** 0.5
    of_sentences = np.split(cosines, vectors.num_tokens.cumsum(0)[:-1].tolist(), axis=1)
    means = np.array([one.max(1).mean() for one in of_sentences])
    assert (np.argsort(means) == np.argsort(scores[:, 2])).all()
    # An affine function of the means
    slope = np.diff(scores[:, 2]) / np.diff(means)
    assert slope == pytest.approx([slope[0]] * 2, rel=1e-3)
    assert scores[:, 2].argmax() == 1


def test_a_query_of_many_tokens_is_compared_whole(encoder):
    # and the [SEP] of each of the pieces that it is read in
    vector, tokens = encoder.encode_query("cod and whale " * 200)
    assert len(tokens) == 603
    assert relative_error(vector, encoder.encode_queries("cod and whale " * 200)) < 1e-5


@pytest.mark.parametrize(
    ("form", "query"),
    [
        ("The flaw CVE-2023-{} was found in the parser.", "What is CVE-2023-{}?"),
        ("Release v1.{}.0 changes how the parser reads.", "what changes in v1.{}.0"),
        ("The parser says “no room {} left” and stops.", 'when does it say "no room {} left"?'),
    ],
)
def test_what_a_query_names_exactly_decides(encoder, form, query):
    document = Document.from_sections("", [("", [form.format(1234 + i) for i in range(40)])])
    for i in range(0, 40, 7):
        [hit] = search(query.format(1234 + i), document, top_k=1, model=encoder)
        assert str(1234 + i) in hit.best.text


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
    words = Words.from_texts(map(" ".join, texts))
    scores = score(words, ["a", "b", "z"])
    assert scores.shape == (len(texts),)
    for text, found in zip(texts, scores.tolist(), strict=True):
        assert 0 <= found < 1
        assert (found > 0) == bool({"a", "b"} & set(text))


@pytest.mark.parametrize(("level", "power"), [("sentence", 1), ("section", 1), ("document", 0)])
@given(st.lists(st.lists(st.sampled_from("abcde"), min_size=1, max_size=9), min_size=2, max_size=9))
def test_scores_are_those_of_bm25s_times_a_power_of_rarity(level, power, texts):
    library = bm25s.BM25(method="lucene", k1=1.2, b=0.75)
    library.index([[*text, "filler"] for text in texts], show_progress=False)
    rarest = log(2 * len(texts) + 2)
    expected = np.zeros(len(texts))
    for term in ("a", "b", "filler"):
        having = len(texts) if term == "filler" else sum(term in text for text in texts)
        rare = log(1 + (len(texts) - having + 0.5) / (having + 0.5)) / rarest
        expected += library.get_scores([term]) * rare**power / rarest / 3
    words = Words.from_texts(" ".join([*text, "filler"]) for text in texts)
    scores = score(words, ["a", "b", "filler"], level)
    assert np.linalg.norm(scores - expected) < 1e-5 * np.linalg.norm(expected)


def test_rare_words_count_for_more():
    words = Words.from_texts(["rare word", *["usual word"] * 9])
    scores = score(words, ["rare", "usual"])
    assert scores[0] > 2 * scores[1]


def test_a_query_without_words_matches_nothing():
    assert score(Words.from_texts(["some words", "more"]), []).tolist() == [0, 0]


@given(
    st.lists(st.text("ab ", max_size=8), max_size=5), st.lists(st.sampled_from("ab"), min_size=1)
)
def test_texts_have_terms_one_after_another(texts, sequence):
    found = Words.from_texts(texts).have(sequence)
    sought = " ".join(["", *sequence, ""])
    expected = [sought in f" {' '.join(terms(text))} " for text in texts]
    assert found.tolist() == expected


@given(st.text("aA1.-_'\"’“”§ 漢", max_size=20), st.sampled_from(["en", "de", "zh"]))
def test_what_a_query_names_is_among_its_terms(text, language):
    names = identifiers(text, language)
    assert {term for name in names for term in name} <= set(terms(text, language))
