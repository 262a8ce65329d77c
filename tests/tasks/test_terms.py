import unicodedata

import numpy as np
import pytest

from foveate.tasks.bm25 import Words, bm25
from foveate.tasks.terms import identifiers, terms


def test_terms_are_words_identifiers_and_their_parts():
    assert terms("Topic57, foo_bar(x) and C++ or C#!") == (
        ["topic57", "foo_bar", "foo", "bar", "x", "and", "c++", "or", "c#"]
    )
    assert terms("of § 3.1: 1,000 or 3.5, a@b.org") == (
        ["of", "§3.1", "1,000", "1000", "or", "3.5", "a@b.org", "org"]
    )
    assert terms("L’eau, l'air, foo_bar's.") == (
        ["l'eau", "eau", "l'air", "air", "foo_bar's", "foo_bar", "foo", "bar"]
    )
    assert terms("…!? ") == []


@pytest.mark.parametrize(
    ("written", "parts"),
    [
        ("getUserName", ["get", "user", "name"]),
        ("HTTPServer", ["http", "server"]),
        ("utf8Decode", ["utf8", "decode"]),
        ("os.PathLike", ["os", "pathlike", "path", "like"]),
        ("iPhone", ["phone"]),
        ("GPUs", []),
        ("NASA", []),
        ("Word", []),
    ],
)
def test_words_within_a_word_are_terms(written, parts):
    assert terms(written) == [written.lower(), *parts]


@pytest.mark.parametrize(
    ("written", "parts"),
    [
        ("v1.2.3", ["1.2.3", "v1"]),
        ("v1.12", ["1.12", "v1", "12"]),
        ("2020-03-31", ["2020", "03", "31"]),
        ("cve-2023-1234", ["cve", "2023", "1234"]),
        ("covid-19", ["covid", "19"]),
    ],
)
def test_numbers_of_two_digits_within_an_identifier_are_terms(written, parts):
    assert terms(written) == [written, *parts]


def test_scripts_without_spaces_yield_characters_and_pairs():
    assert terms("GPT的模型, 字") == ["gpt", "的", "的模", "模", "模型", "型", "字"]
    assert terms("東京へ𠮷") == ["東", "東京", "京", "京へ", "へ", "へ𠮷", "𠮷"]
    assert terms("§ 3a的规") == ["§3a", "的", "的规", "规"]
    assert terms("ไทย") == ["ไท", "ทย"]
    assert terms("API를 학교에") == ["api를", "api", "학교에", "학", "학교", "교", "교에", "에"]


@pytest.mark.parametrize(
    ("query", "text"), [("鯨", "大きな鯨が泳ぐ"), ("물", "물이 많다"), ("鲸", "鲸")]
)
def test_a_query_of_one_character_finds(query, text):
    assert set(terms(query)) <= set(terms(text))


@pytest.mark.parametrize(
    "text", ["Müller café", "학교에서", "ガス", "ἀρχή", "x\u0304 हिन्दी में", "שָׁלוֹם"]
)
def test_letters_may_be_composed_or_not(text):
    composed, decomposed = (unicodedata.normalize(form, text) for form in ("NFC", "NFD"))
    assert terms(composed) == terms(decomposed)
    assert len(terms("x\u0304 हिन्दी में")) == 3  # marks are within words


@pytest.mark.parametrize(
    ("language", "text", "stems"),
    [
        ("en", "Fishing nets", ["fishing", "fish", "nets", "net"]),
        ("de", "alte Häuser", ["alte", "alt", "häuser", "haus"]),
        ("ru", "книги", ["книги", "книг"]),
        ("nb", "bøkene", ["bøkene", "bøk"]),
        ("en", "v1.2s don't 12s", ["v1.2s", "1.2s", "v1", "2s", "don't", "don", "12s"]),
        ("zh", "nets", ["nets"]),
        (None, "nets", ["nets"]),
    ],
)
def test_stems_follow_the_words_that_differ_from_them(language, text, stems):
    assert terms(text, language) == stems


def test_the_word_itself_counts_beside_its_stem():
    texts = ["He allocates memory.", "Allocation of memory.", "Of salt."]
    words = Words.from_texts(texts, "en")
    counts = words.count(terms("allocates", "en"))
    scores = bm25(counts, words.lengths, words.lengths.mean(), np.ones(counts.shape[1]))
    assert scores[0] > scores[1] > scores[2] == 0


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("Is CVE-2023-1234 fixed in v1.2.3?", ["cve-2023-1234", "1.2.3"]),
        ("foo_bar() and __init__ of PyObject’s HTTPServer", "foo_bar __init__ pyobject httpserver"),
        ("os.path, std::vector or a@b.org", ["os.path", "std::vector", "a@b.org"]),
        ("C++ or C#, 0x1F, SHA256, COVID-19", ["c++", "c#", "0x1f", "sha256", "covid-19"]),
        ("what does § 3.1 say about §4?", ["§3.1", "§4"]),
        ("1,000 people in 1984, 3.14 and 192.168.0.1", ["1,000", "1984", "3.14", "192.168.0.1"]),
        ("ISBN 978-3-16-148410-0", ["978-3-16-148410-0"]),
        ("the “memory allocator” in 'thread states'", ["memory allocator", "thread states"]),
        (
            'a "cold start", (‘don’t panic’), «la mer» „das Haus“',
            "cold start|don't don panic|la mer|das haus",
        ),
        ("'don't panic' twice: 'don't panic'", ["don't don panic"]),
        ("什么是「分词」?", ["分 分词 词"]),
    ],
)
def test_exact_identifiers(query, found):
    if isinstance(found, str):
        found = found.split("|") if "|" in found else found.split()
    assert identifiers(query) == [sequence.split() for sequence in found]


@pytest.mark.parametrize(
    "query",
    [
        "Why don't dogs' and cats' owners agree?",
        "'tis the season, isn't it? 'Twas! rock 'n' roll of the '90s and the cats'",
        "5 kg, 5kg, 16GB, 10 %, the 2nd 5-star, 24/7",
        "2020-03-31, 31.03.2020, 3/31/2020, 2019-2020, 10:30, 1990s",
        "well-known, state-of-the-art and/or GPUs, e.g. NASA, the U.S. at 5 p.m., a Ph.D.",
        'a 27" screen and a 5\'10" man with a 32" TV',
        "O'Reilly, L'Oréal, d'Artagnan, the 3.5 \" disk",
        "What is a ___ in “”?",
    ],
)
def test_what_is_no_identifier(query):
    assert identifiers(query) == []


@pytest.mark.parametrize(
    ("phrase", "text", "language"),
    [
        ("“fishing nets”", "Old fishing nets sink.", "en"),
        ("“分词器”", "中文分词器的实现", "zh"),
        ("“the getUserName call”", "See the getUserName call.", "en"),
        ("foo_bar", "That is foo_bar’s.", "en"),
        ("pyObject", "PYOBJECT", None),
    ],
)
def test_the_terms_of_a_phrase_follow_each_other_in_a_text(phrase, text, language):
    sequence, *_ = identifiers(phrase, language)
    found, size = terms(text, language), len(sequence)
    assert sequence in [found[i : i + size] for i in range(len(found))]
