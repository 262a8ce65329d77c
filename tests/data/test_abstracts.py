import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.structured_documents import without_sections
from foveate import Document, DocumentError
from foveate.data import abstract_sections

ABSTRACT = "We study how cod swim in winter, and we find that they swim slowly under the ice."
BODY = "In winter the sea is cold. Nobody has asked before how cod swim in winter."
FISH = Document.from_sections(
    "Fish",
    [
        ("Abstract", ABSTRACT, [("Keywords", "cod, ice, sea")]),
        ("Introduction", BODY, [("Why", "We ask why they swim slowly.")]),
        ("Copyright", "This text is in the public domain."),
    ],
)


def titles(document):
    return [section.title for _, section in document.walk()]


def trees(depth):
    words = st.sampled_from(["cod swim", "eels are long", "rays glide", ""])
    below = trees(depth - 1) if depth else st.just([])
    return st.lists(st.tuples(st.sampled_from("ABC"), words, below), max_size=3)


def test_the_abstract_is_found_though_the_reference_says_more():
    assert abstract_sections(FISH, ABSTRACT) == {0}
    assert abstract_sections(FISH, f"{ABSTRACT} Eels differ.") == {0}
    assert abstract_sections(FISH, "Whales sing.") == frozenset()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (ABSTRACT.upper(), True),
        (ABSTRACT.replace(",", " –").replace("winter", "*winter*"), True),
        (ABSTRACT.replace("slowly", "[1]"), True),  # 2 of 16 pairs differ
        (f"{ABSTRACT} {BODY}", False),  # holds the abstract, and more
        ("Ice the under slowly swim they that find we and winter in swim cod how study we", False),
        ("Cod", False),
    ],
)
def test_a_section_is_compared_by_pairs_of_words(text, found):
    document = Document.from_sections("", [("A", text)])
    assert bool(abstract_sections(document, ABSTRACT)) is found


def test_code_is_not_compared():
    text = f"# Abstract\n\n{ABSTRACT}\n\n```\n{'swim(cod, depth) ' * 20}\n```\n\n# Body\n\n{BODY}"
    assert abstract_sections(Document.from_text(text, format="markdown"), ABSTRACT) == {0}


def test_subsections_of_a_section_that_is_left_out_stay():
    left = without_sections(FISH, {0, 3})
    assert titles(left) == ["Abstract", "Keywords", "Introduction", "Copyright"]
    assert [s.text for s in left.sentences()] == [
        "cod, ice, sea",
        *("In winter the sea is cold.", "Nobody has asked before how cod swim in winter."),
        "This text is in the public domain.",
    ]
    assert all(left.text[s.start : s.end] == s.text for s in left.sentences())
    assert titles(without_sections(FISH, {0, 1})) == ["Introduction", "Why", "Copyright"]


def test_something_must_be_left():
    with pytest.raises(DocumentError, match="no sentence"):
        without_sections(FISH, range(5))


@given(trees(2), st.sets(st.integers(0, 40)))
def test_exactly_the_sentences_of_the_named_sections_are_left_out(parts, indices):
    try:
        document = Document.from_sections("Fish", parts)
    except DocumentError:
        return  # no sentence
    expected = [
        sentence
        for index, (_, section) in enumerate(document.walk())
        if index not in indices
        for paragraph in section.paragraphs
        for sentence in paragraph.sentences
    ]
    if expected:
        left = without_sections(document, indices)
        assert list(left.sentences()) == expected
        assert all(section.num_sentences for _, section in left.walk())
