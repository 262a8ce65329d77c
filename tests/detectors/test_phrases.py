import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foveate import Document
from foveate.detectors import phrases
from foveate.detectors.frequencies import general_frequencies
from foveate.detectors.keyword import words

WORDS = [
    "whale",
    "whales",
    "deep",
    "sea",
    "the",
    "of",
    "krill",
    "krill's",
    "3d",
    "1999",
    "long-line",
]
SENTENCES = st.lists(st.sampled_from([*WORDS, ",", "Ahab"]), min_size=1, max_size=9).map(" ".join)
SECTIONS = st.lists(
    st.tuples(st.lists(st.sampled_from(WORDS), max_size=3).map(" ".join), st.lists(SENTENCES)),
    min_size=1,
    max_size=4,
)


def texts(document, top_k=1000, **options):
    return [keyword.text for keyword in phrases(document, top_k, **options)]


def flat(*sentences, title="", heading=""):
    return Document.from_sections(title, [(heading, list(sentences))])


@given(st.lists(st.sampled_from(WORDS), max_size=3).map(" ".join), SECTIONS, st.integers(1, 5))
def test_what_is_found_in_ragged_documents(title, sections, max_words):
    sections = [*sections, ("", ["Whales swim."])]
    document = Document.from_sections(title, sections)
    found = phrases(document, 1000, max_words=max_words)
    assert found
    assert found == phrases(document, 1000, max_words=max_words)
    assert len({keyword.text.lower() for keyword in found}) == len(found)
    assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)
    for top_k in (1, 3):
        assert phrases(document, top_k, max_words=max_words) == found[:top_k]
    for keyword in found:
        assert 1 <= len(keyword.text.split()) <= max_words
        assert math.isfinite(keyword.score)
        assert keyword.score > 0
        assert keyword.spans
        for span in keyword.spans:
            assert document.text[span.start : span.end] == span.text
            assert [one.key for one in words(span.text)] == [one.key for one in words(keyword.text)]
        keys = [one.key for one in words(keyword.text)]
        assert not {"the", "of", "1999"} & set(keys)
        assert keys[-1] not in ("krill's", "3d")


def test_the_score_is_the_formula():
    document = flat(
        "The deep sea is dark.", "Few fish live in the deep sea, or so.", heading="Deep sea"
    )
    [best] = phrases(document, 1)
    shares = general_frequencies("en")
    unusual = math.sqrt(math.prod(2 / 14 / shares[word] for word in ("deep", "sea")))
    # Two occurrences, seven letters, in a heading, and none of the 14 words before it.
    expected = math.sqrt(2) * unusual ** (1 / 3) * 7 ** (5 / 4) * 2
    assert (best.text, best.score) == ("deep sea", pytest.approx(expected))


def test_words_within_a_longer_phrase_do_not_count_for_the_shorter():
    alone = flat(*["The deep sea is dark."] * 3, *["It is a deep well."] * 3)
    longer = flat(*["The deep sea current is dark."] * 3, *["It is a deep well."] * 3)
    assert texts(alone)[0] == "deep sea"
    found = texts(longer)
    assert found.index("sea current") > 0
    assert found.index("deep sea current") < found.index("deep sea")


def test_a_heading_raises_a_phrase():
    sentences = ["Grey seals dive.", "Blue whales sing.", "We saw grey seals and blue whales."]
    assert texts(flat(*sentences)).index("grey seals") < texts(flat(*sentences)).index(
        "blue whales"
    )
    raised = texts(flat("It was so.", *sentences, heading="Blue whales"))
    assert raised.index("blue whales") < raised.index("grey seals")


def test_the_title_raises_a_phrase():
    sentences = [
        *["It was so in the end."] * 9,
        "Grey seals and blue whales.",
        "Grey seals, blue whales",
    ]
    assert texts(flat(*sentences)).index("grey seals") < texts(flat(*sentences)).index(
        "blue whales"
    )
    raised = texts(flat(*sentences, title="On blue whales"))
    assert raised.index("blue whales") < raised.index("grey seals")


def test_phrases_of_several_words_are_repeated_or_in_a_title():
    assert "grey seals" not in texts(flat("Grey seals are here."))
    assert "grey seals" in texts(flat("Grey seals are here.", title="The grey seals"))
    assert "grey seals" in texts(flat("Grey seals are here.", heading="Grey seals"))
    assert "grey seals" not in texts(flat("They are here.", heading="Grey seals"))


def test_singular_and_plural_are_one():
    document = flat("A grey seal swims.", "Two grey seals swim.", "He saw the grey seals.")
    found = phrases(document, 100)
    assert [(one.text, len(one.spans)) for one in found if "grey" in one.text] == [
        ("grey seals", 2),
        ("grey", 3),
    ]
    assert texts(flat("One berry, two berries.", "Their glass and glasses.")) == ["berry", "glass"]


def test_words_joined_by_hyphens_stay_together():
    document = flat(*["A peer-to-peer file-sharing network failed."] * 2)
    assert "peer-to-peer file-sharing network" in texts(document, max_words=3)
    assert not any(text.startswith(("to", "sharing")) for text in texts(document))


def test_capitals_are_those_inside_sentences():
    document = flat(
        "Whales swim.", "Ahab saw whales.", "There Ahab saw Moby Dick.", "It was Moby Dick."
    )
    assert {"whales", "Ahab", "Moby Dick"} <= set(texts(document))


@pytest.mark.parametrize("text", ["It is what it is.", "42.", "?"])
def test_documents_without_phrases(text):
    assert phrases(Document.from_text(text), 5) == []


def test_a_document_of_one_word():
    assert texts(Document.from_text("Herring!")) == ["herring"]


def test_chinese_and_japanese():
    chinese = Document.from_text("人工智能技术。人工智能技术改变世界。", language="zh")
    assert texts(chinese, language="zh")[0] == "人工智能"
    japanese = Document.from_text("人工知能の研究。人工知能が好き。", language="ja")
    for keyword in phrases(japanese, 3, language="ja"):
        assert all(span.text == keyword.text for span in keyword.spans)
    assert any("知能" in text for text in texts(japanese, language="ja"))


def test_other_languages():
    german = Document.from_text("Der Grauwal schwimmt. Er sieht den Grauwal.", language="de")
    assert texts(german, language="de")[0] == "Grauwal"
    text = "L'écluse est fermée. On a vu l'écluse et l’écluse."
    assert texts(Document.from_text(text, language="fr"), language="fr")[0] == "écluse"
    with pytest.raises(ValueError, match="no word frequencies for the language 'xx': name one of"):
        phrases(german, 3, language="xx")


def test_function_words_of_contracts_are_in_no_phrase():
    lease = flat("The Lessee shall sail. The Lessee shall row. The Lessee shall rest.")
    assert texts(lease)[0] == "Lessee"
    assert not any("shall" in text for text in texts(lease))


def test_a_phrase_has_at_least_one_word():
    with pytest.raises(ValueError, match="max_words must be at least 1, got 0"):
        phrases(flat("Whales swim."), 3, max_words=0)
