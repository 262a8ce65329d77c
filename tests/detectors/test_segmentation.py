"""Chinese and Japanese: words without spaces between them, and keywords made of them."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foveate import Document
from foveate.detectors import detector_by_name, given_keywords
from foveate.detectors.keyword import words
from foveate.detectors.segmentation import segment

CHINESE = "编译器把源代码翻译成机器代码。编译器也检查源代码里的错误。我们用 GCC 编译器。"
JAPANESE = "コンパイラはソースコードを機械語に翻訳する。コンパイラは文法の間違いも報告する。"


def split(text, language):
    return [text[start:end] for start, end in segment(text, language)]


def test_runs_are_split_into_the_most_probable_words():
    assert split("我们在北京大学学习", "zh") == ["我们", "在", "北京大学", "学习"]
    assert split("私は東京で寿司を食べた", "ja") == [
        "私",
        "は",
        "東京",
        "で",
        "寿司",
        "を",
        "食べ",
        "た",
    ]
    assert split("コンパイラを使う", "ja") == ["コンパイラ", "を", "使う"]  # not in the dictionary
    assert split("only Latin letters, 123", "zh") == []


@given(
    st.text(alphabet="我们在学习东京コンパイラをたA1b 。,ー々", max_size=30),
    st.sampled_from(["zh", "ja"]),
)
def test_the_words_of_a_text_cover_its_letters_in_order(text, language):
    found = words(text, language)
    assert all(first.end <= second.start for first, second in pairwise(found))
    inside = {i for word in found for i in range(word.start, word.end)}
    assert {i for i, character in enumerate(text) if character.isalnum()} <= inside
    assert not any(text[i] in " 。," for i in inside)


@pytest.mark.parametrize(
    ("text", "language", "expected"), [(CHINESE, "zh", "编译器"), (JAPANESE, "ja", "コンパイラ")]
)
def test_given_words_are_found_in_their_places(text, language, expected):
    document = Document.from_sections("", [("", text)], language=language)
    [keyword] = given_keywords([expected])(document, 1)
    assert [span.text for span in keyword.spans] == [expected] * text.count(expected)
    assert all(document.text[span.start : span.end] == expected for span in keyword.spans)


@pytest.mark.parametrize(
    ("text", "language", "expected"), [(CHINESE, "zh", "源代码"), (JAPANESE, "ja", "翻訳")]
)
@pytest.mark.parametrize("code", ["{}", "{}-XX"])
def test_words_are_counted_without_spaces(text, language, expected, code):
    document = Document.from_sections("", [("", text)], language=language)
    found = detector_by_name("tfidf", language=code.format(language))(document, 20)
    keywords = {keyword.text: len(keyword.spans) for keyword in found}
    assert keywords[expected] == text.count(expected)
    assert not any(len(keyword) == 1 for keyword in keywords)
