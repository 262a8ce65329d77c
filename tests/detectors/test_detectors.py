from collections import Counter
from dataclasses import replace

import pytest
import torch

from foveate import Document
from foveate.detectors import (
    detector_by_name,
    gibberish,
    given_keywords,
    phrases,
    random_words,
    tfidf,
)
from foveate.detectors.keyword import locate, words
from foveate.detectors.statistical import general_frequencies

SEA = Document.from_sections(
    "Fish of the sea",
    [
        ("Cod", "The cod is a fish of the sea. Cod eat herring; herring swim in schools."),
        ("Eel", "The eel is a long fish of the deep sea. The deep sea is dark. Xyzzyq is not."),
    ],
)


DETECTORS = {
    "phrases": phrases,
    "tfidf": tfidf,
    "random": random_words,
    "given": given_keywords(["cod", "deep sea", "whale"]),
}


@pytest.mark.parametrize("name", DETECTORS)
def test_keywords_are_located(name):
    found = DETECTORS[name](SEA, 6)
    assert 0 < len(found) <= 6
    assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)
    for keyword in found:
        if name != "given":
            assert keyword.spans
        for span in keyword.spans:
            assert SEA.text[span.start : span.end] == span.text
            assert [w.key for w in words(span.text)] == [w.key for w in words(keyword.text)]


def test_spans_are_exact_through_markup():
    document = Document.from_text(
        "# Fish\n\nThe *deep*\nsea is a sea. [Cod](cod.html) and cod swim.", format="markdown"
    )
    deep_sea, sea, cod = locate(document, [("deep sea", 2.0), ("sea", 1.0), ("cod", 0.0)])
    assert [document.text[one.start : one.end] for one in deep_sea.spans] == ["deep*\nsea"]
    assert [document.text[one.start : one.end] for one in sea.spans] == ["sea", "sea"]
    assert [one.text for one in deep_sea.spans + sea.spans] == ["deep sea", "sea", "sea"]
    # The link's address repeats the word, so that its own place is not known for certain.
    second = document.spans()[1]
    assert [one.text for one in cod.spans] == ["Cod", "cod"]
    assert {(one.start, one.end) for one in cod.spans} == {(second.start, second.end)}


def test_detectors_by_name():
    assert detector_by_name("tfidf")(SEA, 5) == tfidf(SEA, 5)
    assert detector_by_name("phrases")(SEA, 5) == phrases(SEA, 5)
    assert detector_by_name("random", seed=3)(SEA, 5) == random_words(SEA, 5, seed=3)
    with pytest.raises(ValueError, match="there is no method 'rake': name one of tfidf, "):
        detector_by_name("rake")


@pytest.mark.parametrize("name", [*DETECTORS, "gibberish"])
def test_detectors_are_deterministic(name):
    detect = {**DETECTORS, "gibberish": gibberish}[name]
    assert detect(SEA, 5) == detect(SEA, 5)
    assert len(detect(SEA, 3)) == 3


def test_tfidf_is_the_share_in_the_document_over_the_general_share():
    share = general_frequencies("en")
    counts = Counter(word.key for one in SEA.sentences() for word in words(one.text))
    expected = {w: n / counts.total() / share[w] for w, n in counts.items() if w in share}
    found = {keyword.text: keyword.score for keyword in tfidf(SEA, 1000)}
    assert found == pytest.approx(expected)
    assert "xyzzyq" in counts
    assert "xyzzyq" not in found


def test_unusually_frequent_words_come_first():
    assert tfidf(SEA, 3)[0].text in ("herring", "eel")
    assert "the" not in [keyword.text for keyword in tfidf(SEA, 8)]


def test_numbers_are_not_keywords():
    document = Document.from_text("In 1950 the cod was cheap. In 1951 it was not.")
    assert not any(keyword.text[0].isdigit() for keyword in tfidf(document, 100))


def test_other_languages():
    document = Document.from_text("Der Kabeljau ist ein Fisch. Der Fisch lebt im Meer.")
    assert "fisch" in [keyword.text for keyword in tfidf(document, 3, language="de")]
    with pytest.raises(ValueError, match="no word frequencies for the language 'xx': name one of"):
        tfidf(document, 3, language="xx")


def test_codes_of_one_language():
    assert general_frequencies("en-US") == general_frequencies("en")
    assert general_frequencies("no") == general_frequencies("nb")
    for other in ("tlh", "zz", "German", ""):
        with pytest.raises(ValueError, match="there are no word frequencies for the language"):
            general_frequencies(other)


def test_phrases_are_found_as_whole_words_whatever_their_case():
    [deep_sea, whale] = given_keywords(["Deep  Sea", "whale"])(SEA, 5)
    assert deep_sea.text == "Deep Sea"
    sentences = SEA.spans()
    assert deep_sea.spans == tuple(
        replace(sentences[i], start=sentences[i].start + start, end=end, text="deep sea")
        for i, start, end in ((2, 30, sentences[2].start + 38), (3, 4, sentences[3].start + 12))
    )
    assert whale.spans == ()
    [sea] = given_keywords(["se"])(SEA, 1)
    assert sea.spans == ()


def test_a_single_string_is_one_keyword():
    assert [keyword.text for keyword in given_keywords("deep sea")(SEA, 5)] == ["deep sea"]


def test_leaving_out_given_keywords_warns():
    with pytest.warns(UserWarning, match="only the first 1 of 2 given keywords are used"):
        assert [keyword.text for keyword in given_keywords(["cod", "eel"])(SEA, 1)] == ["cod"]


@pytest.mark.parametrize("own", [[], "", [""], ["cod", "  "]])
def test_empty_keywords_are_refused(own):
    with pytest.raises(ValueError, match="a keyword is empty"):
        given_keywords(own)


def test_random_words_are_from_the_document_and_differ_by_seed():
    present = {word.key for one in SEA.sentences() for word in words(one.text)}
    found = [keyword.text for keyword in random_words(SEA, 5)]
    assert set(found) <= present
    assert len(set(found)) == 5
    assert found != [keyword.text for keyword in random_words(SEA, 5, seed=1)]
    assert {keyword.text for keyword in random_words(SEA, 1000)} == present


def test_random_words_are_uniform():
    drawn = Counter(random_words(SEA, 1, seed=seed)[0].text for seed in range(3000))
    present = {word.key for one in SEA.sentences() for word in words(one.text)}
    assert set(drawn) == present
    expected = 3000 / len(present)
    assert all(0.6 * expected < count < 1.4 * expected for count in drawn.values())


def test_gibberish_has_binomial_lengths_and_uniform_letters():
    made = [keyword.text for keyword in gibberish(SEA, 5000)]
    lengths = torch.tensor([float(len(word)) for word in made])
    assert abs(lengths.mean() - 5) < 0.1
    assert abs(lengths.var() - 2.5) < 0.15
    assert lengths.min() >= 1
    letters = Counter("".join(made))
    assert sorted(letters) == list("abcdefghijklmnopqrstuvwxyz")
    assert max(letters.values()) < 1.25 * min(letters.values())
    assert made[:5] != [keyword.text for keyword in gibberish(SEA, 5, seed=1)]
