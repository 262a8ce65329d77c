"""Which words of a hit match which of the query."""

import json
import re

import numpy as np
import pytest

from foveate import Document, Encoder, ask, search
from foveate.detectors.frequencies import general_frequencies
from foveate.tasks import explain as explain_module
from foveate.tasks.explain import explain
from foveate.tasks.hits import Hit
from tests.tree_bert import save_tree_bert

TURNS = [
    ("Ann", "The trawlers of Ålesund catch herrings and cods. Nobody overfishes 𝒙 there."),
    ("Bob", "Overfishing is unlawful. It has been so for years, whatever the shipowners tell."),
    ("Bob", "The ministry of fisheries forbade overfishing in a decree of 1977."),
    ("Ann", "Then who overfishes the herring?"),
]
QUERY = "Who overfishes the herring of Ålesund unlawfully?"


@pytest.fixture(scope="module")
def small(tmp_path_factory, tokenizer):
    """A random encoder with vectors of tokens, which splits sentences after a few tokens."""
    folder = tmp_path_factory.mktemp("tokens")
    save_tree_bert(folder, tokenizer, token_size=32)
    encoder = Encoder.from_pretrained(folder, device="cpu")
    encoder.processor.max_sentence_tokens = 7
    return encoder


def tokens_of(text, tokenizer):
    """Return where each token of a text is, and those that close its pieces of seven tokens."""
    places = tokenizer(text, return_offsets_mapping=True, add_special_tokens=False)
    places = places["offset_mapping"]
    return [one for i in range(0, len(places), 7) for one in (*places[i : i + 7], (0, 0))]


def words_of(text):
    """Return where the words of a text are, except for very common ones."""
    places = [match.span() for match in re.finditer(r"\w+", text)]
    frequencies = general_frequencies("en")
    return [one for one in places if frequencies.get(text[slice(*one)].lower(), 0) < 5e-4]


def test_matches_are_those_of_the_definition(small, tokenizer, monkeypatch):
    monkeypatch.setattr(explain_module, "MIN_SIMILARITY", 0.2)
    turns = [{"speaker": speaker, "text": text} for speaker, text in TURNS]
    talk = Document.from_text(json.dumps({"turns": turns}), format="json", language="en")
    vectors = small.encode(talk)
    signs = vectors.tokens.split(vectors.num_tokens.tolist())
    of_query = small.encode_query(QUERY)[1].numpy()
    query_places = tokens_of(QUERY, tokenizer)
    hits = [Hit(span, span, 0.5, 0) for span in talk.spans()]
    hits = explain(QUERY, of_query, hits, [one.numpy() for one in signs], "en", small)
    num_matches = 0
    speaker = None
    for hit, its_signs in zip(hits, signs, strict=True):
        said = "" if hit.best.speaker == speaker else f"{hit.best.speaker}: "
        speaker = hit.best.speaker
        text = said + hit.best.text
        places = tokens_of(text, tokenizer)
        of_sentence = 2.0 * np.unpackbits(its_signs.numpy(), axis=1) - 1
        cosines = of_query @ of_sentence.T / np.sqrt(32)
        expected = []
        for first, last in words_of(QUERY):
            found = {
                (start, end): max(
                    cosines[q, t]
                    for q, (q_start, q_end) in enumerate(query_places)
                    for t, (t_start, t_end) in enumerate(places)
                    if first <= q_start < q_end <= last and start <= t_start < t_end <= end
                )
                for start, end in words_of(text)
                if start >= len(said)
            }
            place = max(found, key=found.get, default=None)
            if place and found[place] >= 0.2:
                start, end = (offset - len(said) for offset in place)
                similarity = pytest.approx(found[place], abs=1e-4)
                expected.append((QUERY[first:last], start, end, similarity))
        assert [(m.query_word, m.start, m.end, m.similarity) for m in hit.matches] == expected
        assert all(hit.best.text[m.start : m.end] == m.word for m in hit.matches)
        num_matches += len(expected)
    assert {hit.best.speaker for hit in hits} == {"Ann", "Bob"}
    assert num_matches > len(hits)


@pytest.mark.parametrize("by", ["passage", "section", "document"])
def test_words_that_mean_the_same_match(sea, encoder, by):
    query = "Is diesel expensive, or are the harbours?"
    hit = search(query, sea, by=by, top_k=1, model=encoder, explain=True)[0]
    assert hit.best.text == "Diesel is dear."
    [diesel, *_] = hit.matches
    assert (diesel.query_word, diesel.word, diesel.start, diesel.end) == ("diesel", "Diesel", 0, 6)
    assert 0.45 < diesel.similarity < 1
    [plain] = search(query, sea, by=by, top_k=1, model=encoder)
    assert plain.matches == ()
    assert hit.span == plain.span


def test_passages_of_questions_are_explained(sea, encoder):
    [passage] = ask("Which fish drift?", sea, top_k=1, model=encoder, explain=True).passages
    assert ("drift", "drift") in [(one.query_word, one.word) for one in passage.matches]


@pytest.mark.filterwarnings("ignore:the encoder was not trained")
def test_texts_in_a_language_without_frequencies_are_explained(encoder):
    document = Document.from_text("Diesel is dear.", language="la")
    [hit] = search("diesel", document, model=encoder, explain=True)
    assert [one.word for one in hit.matches] == ["Diesel"]


def test_models_without_vectors_of_tokens_cannot_explain(sea, small_encoder):
    with pytest.raises(ValueError, match="has no vectors of tokens: leave out explain"):
        search("cod", sea, model=small_encoder, explain=True)
