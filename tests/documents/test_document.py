import json
import random
import re
from dataclasses import replace
from pathlib import Path

import pytest

from foveate.documents import (
    Document,
    DocumentError,
    Paragraph,
    Section,
    Sentence,
    Span,
    as_document,
    as_documents,
    sentences,
)
from foveate.documents.structure import KINDS


def test_a_document_is_sections_of_paragraphs_of_sentences():
    document = Document.from_text("One two.  Three\nfour.\n\nFive.", title="Numbers")
    assert document == Document(
        title="Numbers",
        sections=(
            Section(
                title="",
                paragraphs=(
                    Paragraph((Sentence("One two.", 0, 8), Sentence("Three four.", 10, 21))),
                    Paragraph((Sentence("Five.", 23, 28),)),
                ),
            ),
        ),
        text="One two.  Three\nfour.\n\nFive.",
        language="en",
    )


def test_walk_visits_sections_in_order_with_their_path():
    document = Document.from_text(
        "# A\n\na.\n\n## B\n\nb.\n\n### C\n\nc.\n\n## D\n\nd.\n\n# E\n\ne.", format="markdown"
    )
    assert [path for path, _ in document.walk()] == [
        ("A",),
        ("A", "B"),
        ("A", "B", "C"),
        ("A", "D"),
        ("E",),
    ]
    assert [sentence.text for sentence in document.sentences()] == ["a.", "b.", "c.", "d.", "e."]


def test_text_before_the_first_heading_is_an_untitled_section(outline):
    document = Document.from_text("Lead.\n\n# A\n\na.\n\n# B\n\nb.", format="markdown")
    assert outline(document) == [("", ["Lead."]), ("A", ["a."]), ("B", ["b."])]


def test_headings_without_text_are_left_out(outline):
    document = Document.from_text("# A\n\na.\n\n# B\n\n## C\n\n# D\n\nd.", format="markdown")
    assert outline(document) == [("A", ["a."]), ("D", ["d."])]


def test_sections_and_paragraphs_without_sentences_are_left_out():
    full = Paragraph((Sentence("Cod swim.", 0, 9),))
    sections = (
        Section("A", (), (Section("B", (Paragraph(()), full), (Section("C", ()),)),)),
        Section("D", (Paragraph(()),)),
    )
    document = Document("Fish", sections, "Cod swim.")
    assert document.sections == (Section("A", (), (Section("B", (full,)),)),)
    assert [span.text for span in document.section_spans()] == ["A", "B"]


@pytest.mark.parametrize(
    ("sentence", "message"),
    [
        (Sentence("They eat.", 17, 10), r"sentence 2 \('They eat\.'\) from 17 to 10, but"),
        (Sentence("They eat.", 10, 10), "from 10 to 10, but has to end after it starts"),
        (Sentence("They eat.", 10, 90), "from 10 to 90, outside its text of 19 characters"),
        (Sentence("They eat.", -9, 19), "from -9 to 19, outside its text"),
        (Sentence("They eat.", 8, 19), "from 8 to 19, but the one before ends at 9"),
        (Sentence("They eat.", 10.0, 19), "from 10.0 to 19, where offsets have to be integers"),
        (Sentence(" ", 10, 19), r"an empty sentence \(2\)"),
    ],
)
def test_impossible_sentences_are_refused(sentence, message):
    first, last = Paragraph((Sentence("Cod swim.", 0, 9),)), Paragraph((sentence,))
    section = Section("", (first,), (Section("", (last,)),))
    with pytest.raises(DocumentError, match=f"^fish.txt has .*{message}"):
        Document("Fish", (section,), "Cod swim. They eat.", source="fish.txt")


def nested(depth):
    """Sections within sections, the innermost of them with a sentence."""
    section = Section(f"Depth {depth}", (Paragraph((Sentence("Cod swim.", 0, 9),)),))
    for level in range(depth - 1, 0, -1):
        section = Section(f"Depth {level}", (), (section,))
    return section


def packed_sections(depth):
    """The same in the form of `Document.to_dict`."""
    sentence = {"text": "Cod swim.", "start": 0, "end": 9}
    section = {"title": f"Depth {depth}", "paragraphs": [{"sentences": [sentence]}]}
    for level in range(depth - 1, 0, -1):
        section = {"title": f"Depth {level}", "paragraphs": [], "sections": [section]}
    return [section]


@pytest.mark.parametrize("depth", [65, 70, 5000])
def test_sections_nested_too_deep_are_refused_when_a_document_is_made_or_read(depth):
    message = r"nests sections more than 64 deep \('Depth 65'\): flatten some\.$"
    with pytest.raises(DocumentError, match=f'^"Fish" {message}'):
        Document("Fish", (nested(depth),), "Cod swim.")
    data = {"title": "Fish", "text": "Cod swim.", "sections": packed_sections(depth)}
    with pytest.raises(DocumentError, match=f"^The mapping {message}"):
        Document.from_dict(data)


def test_what_can_be_made_can_be_read_back():
    document = Document("Fish", (nested(64),), "Cod swim.")
    assert Document.from_dict(document.to_dict()) == document
    for kind in KINDS:
        paragraph = Paragraph((Sentence("Cod swim.", 0, 9),), kind=kind)
        document = Document("Fish", (Section("", (paragraph,)),), "Cod swim.")
        assert Document.from_dict(document.to_dict()) == document


@pytest.mark.parametrize("kind", ["poem", "", None, 3, ["prose"]])
def test_paragraphs_of_an_unknown_kind_are_refused_when_a_document_is_made_or_read(kind):
    prose = Paragraph((Sentence("Cod swim.", 0, 9),))
    other = Paragraph((Sentence("They eat.", 10, 19),), kind=kind)
    text = "Cod swim. They eat."
    message = rf"has a paragraph of kind {re.escape(repr(kind))} \('They eat\.'\): use one of prose"
    with pytest.raises(DocumentError, match=f'^"Fish" {message}'):
        Document("Fish", (Section("", (prose, other)),), text)
    document = Document("Fish", (Section("", (prose, replace(other, kind="item"))),), text)
    data = document.to_dict()
    data["sections"][0]["paragraphs"][1]["kind"] = kind
    with pytest.raises(DocumentError, match=f'^"Fish" {message}'):
        Document.from_dict(data)


@pytest.mark.parametrize("speaker", [3, b"Ann", ["Ann"]])
def test_speakers_are_strings_when_a_document_is_made_or_read(speaker):
    said = Paragraph((Sentence("Cod swim.", 0, 9),), "Ann")
    message = rf"has a paragraph with the speaker {re.escape(repr(speaker))} \('Cod swim\.'\): give"
    with pytest.raises(DocumentError, match=f'^"Fish" {message}'):
        Document("Fish", (Section("", (replace(said, speaker=speaker),)),), "Cod swim.")
    data = Document("Fish", (Section("", (said,)),), "Cod swim.").to_dict()
    data["sections"][0]["paragraphs"][0]["speaker"] = speaker
    with pytest.raises(DocumentError, match=f'^"Fish" {message}'):
        Document.from_dict(data)


@pytest.mark.parametrize("format", ["text", "markdown", "rst", "html"])
def test_without_headings_every_32_sentences_are_a_section(format):
    document = Document.from_text("Cats purr. Dogs bark.\n\n" * 40, format=format)
    sizes = [sum(len(p.sentences) for p in section.paragraphs) for section in document.sections]
    assert sizes == [32, 32, 16]
    assert {section.title for section in document.sections} == {""}


def nested_jats(depth):
    parts = "".join(f"<sec><title>{number}</title><p>Text.</p>" for number in range(depth))
    return f"<article><body>{parts}{'</sec>' * depth}</body></article>"


def test_sections_nest_64_deep_and_no_deeper():
    document = Document.from_text(nested_jats(150), format="jats")
    assert max(len(path) for path, _ in document.walk()) == 64
    assert sum(1 for _ in document.sentences()) == 150
    assert Document.from_dict(document.to_dict()) == document
    with pytest.raises(DocumentError, match="Excessive depth"):
        Document.from_text(nested_jats(5000), format="jats")


@pytest.mark.parametrize("text", ["a \ud800 b", "a \0 b"])
def test_characters_that_are_not_text_are_refused(text):
    message = r"has the character U\+(D800|0000) at 2, which is not text"
    for title, section in ((text, ("", "x.")), ("", (text, "x.")), ("", ("", [text]))):
        with pytest.raises(DocumentError, match=message):
            Document.from_sections(title, [section])
    packed = Document.from_text("abcdef").to_dict()
    with pytest.raises(DocumentError, match=message):
        Document.from_dict(packed | {"authors": [text]})
    paragraph = packed["sections"][0]["paragraphs"][0]
    paragraph["speaker"] = text
    with pytest.raises(DocumentError, match=message):
        Document.from_dict(packed)
    paragraph |= {"speaker": None, "sentences": [paragraph["sentences"][0] | {"text": text}]}
    with pytest.raises(DocumentError, match=message):
        Document.from_text(json.dumps(packed), format="json")


def test_wrong_types_are_refused():
    with pytest.raises(DocumentError, match="The title is 5: give a string"):
        Document.from_sections(5, [("", "x.")])
    for other in ("x", None, Path("x")):
        with pytest.raises(TypeError, match="expected bytes, got"):
            Document.from_bytes(other)
    assert Document.from_bytes(memoryview(b"x.")).text == "x."
    with pytest.raises(TypeError, match="expected str, got bytes"):
        Document.from_text(b"x")


@pytest.mark.parametrize("sentence", ["Abcdefgh. ", "Sentence number 7 is here. ", "So it is! "])
def test_long_paragraphs_are_split_like_short_ones(sentence):
    document = Document.from_text(sentence * 3000)
    assert {one.text for one in document.sentences()} == {sentence.strip()}
    assert sum(1 for _ in document.sentences()) == 3000


def test_windows_do_not_begin_inside_quotations(monkeypatch):
    chance = random.Random(0)
    said = [
        '"I went. He did not! Who asked?" she said.',
        '"No."',
        "The sea was calm.",
        "They left.",
    ]
    for _ in range(5):
        text = " ".join(chance.choices(said, k=1200))
        document = Document.from_text(text)
        with monkeypatch.context() as patched:
            patched.setattr(sentences, "_WINDOW", 10**6)
            assert document == Document.from_text(text)


def test_sentences_longer_than_a_window():
    for length in range(9770, 9830, 3):
        first = "x" * (length % 5) + " word" * (length // 5)
        found = list(Document.from_text(f"{first}. Then another. And a third.").sentences())
        assert [one.text for one in found[-2:]] == ["Then another.", "And a third."]
        assert max(len(one.text) for one in found) <= 1000


def test_the_representation_says_what_the_document_is_but_not_its_text():
    document = Document.from_text("Cod swim. They eat.", title="Cod", source="cod.txt")
    shown = "Document('Cod', source='cod.txt', language='en', sections=1, sentences=2)"
    assert repr(document) == shown


@pytest.mark.parametrize("path", ["cod.pdf", Path("cod.pdf")])
def test_a_path_is_not_the_content_of_a_document(path):
    with pytest.raises(DocumentError, match=r"read a file with Document\.from_file\(path\)\.$"):
        Document(path)


def test_the_name_is_the_source_else_the_title():
    assert Document.from_text("x.", title="Fish", source="fish.txt").name == "fish.txt"
    assert Document.from_text("x.", title="Fish").name == "Fish"
    assert Document.from_text("x.").name == ""


def test_spans_locate_each_sentence():
    document = Document.from_text(
        "# A\n\nSome *text*.\n\n# B\n\nIt is. So!", format="markdown", source="a.md"
    )
    assert document.spans() == [
        Span("a.md", ("A",), None, 5, 17, "Some text.", None, "line 3"),
        Span("a.md", ("B",), None, 24, 30, "It is.", None, "line 7"),
        Span("a.md", ("B",), None, 31, 34, "So!", None, "line 7"),
    ]
    meeting = Document.from_text("Ann: Hello.\nBob: Hi. Well.", format="transcript")
    assert [span.speaker for span in meeting.spans()] == ["Ann", "Bob", "Bob"]


def test_places_are_lines_that_count_from_1():
    document = Document.from_text("One.\nTwo.\n\nThree.")
    assert [span.place for span in document.spans()] == ["line 1", "line 2", "line 4"]
    assert document.span(0, 1).place == document.span(4, 5).place == "line 1"  # the line's end too


@pytest.mark.parametrize(
    ("format", "text"),
    [
        ("text", "Title: Old\nAuthor: Ann Lee\n\nCod swim."),
        ("markdown", "# Old\n\nCod swim."),
        ("rst", "Old\n===\n\nCod swim."),
        ("latex", r"\title{Old}\begin{document}Cod swim.\end{document}"),
        ("html", "<title>Old</title><p>Cod swim.</p>"),
        (
            "jats",
            "<article><front><article-meta><title-group><article-title>Old</article-title>"
            "</title-group></article-meta></front><body><p>Cod swim.</p></body></article>",
        ),
        ("json", '{"title": "Old", "text": "Cod swim."}'),
        ("json", json.dumps(Document.from_text("Cod swim.", title="Old").to_dict())),
    ],
)
def test_a_given_title_replaces_the_one_in_the_text(format, text):
    assert Document.from_text(text, format=format).title == "Old"
    assert Document.from_text(text, format=format, title="New").title == "New"


class TestMerge:
    def test_each_document_becomes_a_section(self, outline, in_source):
        fish = Document.from_text("# Cod\n\nSwims.\n\n# Eel\n\nHides.", format="markdown")
        boats = Document.from_text("Float. Sink.", source="boats.txt")
        merged = Document.merge([fish, boats])
        assert outline(merged) == [
            ("", []),
            (" > Cod", ["Swims."]),
            (" > Eel", ["Hides."]),
            ("boats.txt", []),
            ("boats.txt > ", ["Float.", "Sink."]),
        ]
        assert merged.text == f"{fish.text}\n\n{boats.text}"
        assert in_source(merged) == ["Swims.", "Hides.", "Float.", "Sink."]

    def test_a_title_goes_before_a_source(self):
        one = Document.from_text("x.", title="Fish", source="fish.txt")
        assert [section.title for section in Document.merge([one, one]).sections] == ["Fish"] * 2

    def test_the_authors_and_dates_of_the_parts_are_not_those_of_the_whole(self):
        document = replace(Document.from_text("Cod."), authors=("Ann Lee",), date="2024")
        merged = Document.merge([document, document])
        assert (merged.authors, merged.date) == ((), None)

    def test_a_single_document_is_returned_unchanged(self):
        document = Document.from_text("Cod.")
        assert Document.merge([document]) is document

    def test_sections_that_would_nest_too_deep_are_refused(self):
        part = ("H64", "64.")
        for depth in range(63, 0, -1):
            part = (f"H{depth}", "", [part])
        document = Document.from_sections("", [part])
        with pytest.raises(DocumentError, match="nests sections more than 64 deep"):
            Document.merge([document, document])

    def test_there_must_be_documents(self):
        with pytest.raises(DocumentError, match="no documents to merge: give at least one"):
            Document.merge([])
        with pytest.raises(TypeError, match="expected a Document, got str"):
            Document.merge(["fish.txt"])


def test_one_document_or_several():
    document = Document.from_text("Cod.")
    assert as_document(document) is document
    assert as_documents(document) == [document]
    assert as_documents(iter([document, document])) == [document, document]
    with pytest.raises(TypeError, match=r"got str: make one with Document\.from_file or"):
        as_document("fish.txt")


class TestFromSections:
    def test_tuples_of_heading_and_sentences(self, outline, in_source):
        document = Document.from_sections(
            "Title", [("One", ["First  one.", "Second."]), ("Two", "Third. Fourth.\n\nFifth.")]
        )
        assert outline(document) == [
            ("One", ["First one.", "Second."]),
            ("Two", ["Third.", "Fourth.", "Fifth."]),
        ]
        assert document.text == ("One\n\nFirst one. Second.\n\nTwo\n\nThird. Fourth.\n\nFifth.")
        assert in_source(document) == [sentence.text for sentence in document.sentences()]

    def test_mappings_and_subsections(self, outline):
        document = Document.from_sections(
            "Title",
            [
                {"title": "A", "text": "a.", "sections": [("B", "b."), {"sentences": ["c"]}]},
                ("D", "d.", [("E", ["e."])]),
            ],
        )
        assert outline(document) == [
            ("A", ["a."]),
            ("A > B", ["b."]),
            ("A > ", ["c"]),
            ("D", ["d."]),
            ("D > E", ["e."]),
        ]

    def test_given_sentences_are_not_split_again(self):
        document = Document.from_sections("", [("", ["One. Two.", "Three"])])
        assert [sentence.text for sentence in document.sentences()] == ["One. Two.", "Three"]

    def test_headings_by_either_name(self):
        document = Document.from_sections("", [{"heading": "A", "text": "a."}])
        assert [section.title for section in document.sections] == ["A"]

    @pytest.mark.parametrize("part", ["text", 3, ("one",), (1, 2), {"title": 1, "text": "x"}])
    def test_other_shapes_are_refused(self, part):
        message = r'^"Title" has a section .*: give \(heading, text'
        with pytest.raises(DocumentError, match=message):
            Document.from_sections("Title", [part])
        with pytest.raises(DocumentError, match=r"^The text has a section .*: give"):
            Document.from_text(json.dumps({"sections": [part]}), format="json")

    def test_too_deep_nesting_is_refused(self):
        part = ("H", "text.")
        for _ in range(100):
            part = ("H", "text.", [part])
        with pytest.raises(DocumentError, match=r'^"Title" nests sections more than 64 deep'):
            Document.from_sections("Title", [part])

    def test_no_sentence_is_refused(self):
        with pytest.raises(DocumentError, match='"Title" has no sentence'):
            Document.from_sections("Title", [("Heading", " ")])


class TestSerialization:
    def test_round_trip_through_json_is_exact(self):
        document = Document.from_text("# A\n\nOne. *Two*.\n\n## B\n\nÜ 😀.", format="markdown")
        data = json.loads(json.dumps(document.to_dict()))
        assert Document.from_dict(data) == document
        assert Document.from_text(json.dumps(data), format="json") == document

    def test_authors_and_date_survive_json_and_older_documents_have_none(self):
        document = replace(
            Document.from_text("One."), authors=("Ann Lee", "María José"), date="2024-05"
        )
        data = json.loads(json.dumps(document.to_dict()))
        assert Document.from_dict(data) == document
        assert Document.from_text(json.dumps(data), format="json") == document
        del data["authors"], data["date"]
        assert Document.from_dict(data) == replace(document, authors=(), date=None)

    @pytest.mark.parametrize("authors", ["Ann", [3], [" "], None, {"Ann": 1}])
    def test_authors_in_another_form_are_refused(self, authors):
        data = Document.from_text("One.").to_dict()
        with pytest.raises(DocumentError):
            Document.from_dict(data | {"authors": authors})

    @pytest.mark.parametrize("date", ["", "May 2024", "2024-5", "2024-13", "2023-02-29", 2024])
    def test_a_date_in_another_form_is_refused(self, date):
        data = Document.from_text("One.").to_dict()
        with pytest.raises(DocumentError):
            Document.from_dict(data | {"date": date})

    def test_something_else_is_refused(self):
        with pytest.raises(DocumentError, match=r"^The mapping .*'text' is missing.*to_dict"):
            Document.from_dict({"title": "x"})
        with pytest.raises(DocumentError, match="3 is not str"):
            Document.from_dict({"title": 3, "text": "", "sections": []})

    def test_empty_parts_are_refused(self):
        def packed(sections):
            return {"title": "", "text": "Hello.", "sections": sections}

        empty = {"text": " ", "start": 0, "end": 1}
        for paragraphs, message in (
            ([], "no sentence to read"),
            ([{"sentences": []}], "no sentence to read"),
            ([{"sentences": [empty]}], "empty sentence"),
        ):
            with pytest.raises(DocumentError, match=message):
                Document.from_dict(packed([{"title": "A", "paragraphs": paragraphs}]))

    @pytest.mark.parametrize(
        ("changed", "message"),
        [
            ({"text": "Co"}, r"has sentence 1 \('Cod\.'\) from 0 to 4, outside its text"),
            ({"date": "May"}, "has the date 'May': write it as YYYY"),
            ({"authors": [" "]}, "has the authors .*: give a tuple of names"),
            ({"sections": []}, "has no sentence to read"),
            ({"sections": 3}, "is not a saved document"),
            ({"sections": packed_sections(65)}, "nests sections more than 64 deep"),
        ],
    )
    def test_errors_name_the_file_that_is_read(self, tmp_path, changed, message):
        data = Document.from_text("Cod.", source="fish.txt").to_dict()
        path = tmp_path / "saved.json"
        path.write_text(json.dumps(data | changed))
        with pytest.raises(DocumentError, match=f"^{re.escape(str(path))} {message}"):
            Document.from_file(path)

    def test_a_saved_document_is_checked_once(self, monkeypatch):
        data = json.dumps(Document.from_text("Cod swim. They eat.").to_dict())
        checked = []
        monkeypatch.setattr(
            "foveate.documents.document.check_sentences",
            lambda sentences, length: checked.append(length),
        )
        Document.from_text(data, format="json", source="saved.json")
        assert checked == [19]

    def test_the_source_is_the_one_that_was_saved_or_else_the_file(self, tmp_path):
        path = tmp_path / "saved.json"
        for source in ("fish.txt", None):
            document = Document.from_text("Cod.", source=source)
            path.write_text(json.dumps(document.to_dict()))
            assert Document.from_file(path).source == source or str(path)

    def test_spans_outside_the_text_are_refused(self):
        data = Document.from_text("Hello.").to_dict()
        with pytest.raises(DocumentError, match="outside its text of 2 characters"):
            Document.from_dict(data | {"text": "He"})


class TestSentences:
    def sentences(self, text):
        return [sentence.text for sentence in Document.from_text(text).sentences()]

    def test_abbreviations_do_not_end_a_sentence(self):
        text = "It is, e.g. here, in Fig. 3 of Smith et al. (2003). Dr. Foo knows 3.5 of it."
        assert self.sentences(text) == [
            "It is, e.g. here, in Fig. 3 of Smith et al. (2003).",
            "Dr. Foo knows 3.5 of it.",
        ]

    def test_quotations_of_several_sentences_are_split(self):
        text = "“I am here. You are not?” he asked. She left."
        assert self.sentences(text) == ["“I am here.", "You are not?” he asked.", "She left."]

    def test_a_stray_ellipsis_belongs_to_the_sentence_before(self):
        assert self.sentences("He left. . . .") == ["He left. . . ."]

    def test_other_languages(self):
        document = Document.from_text("Das ist z. B. gut. Ja.", language="de")
        assert [one.text for one in document.sentences()] == ["Das ist z. B. gut.", "Ja."]

    @pytest.mark.parametrize("format", ["text", "markdown", "html", "transcript"])
    def test_a_text_without_punctuation_is_cut_between_words(self, format):
        document = Document.from_text("word " * 200_000, format=format)
        ends = [one.end for one in document.sentences()]
        assert ends == list(range(999, 1_000_000, 1000))

    def test_long_runs_of_quotation_marks_are_fast(self):
        assert len(self.sentences("“" * 200_000)) == 200


def test_sections_are_located_with_their_subsections():
    document = Document.from_sections(
        "Fish", [("Cod", "Cod swim.", [("Young", "They are small. They hide.")]), ("Eel", "Eels.")]
    )
    spans = document.section_spans()
    assert [span.path for span in spans] == [path for path, _ in document.walk()]
    assert [span.text for span in spans] == ["Cod", "Young", "Eel"]
    words = [document.text[span.start : span.end] for span in spans]
    assert words[0].startswith("Cod swim.")
    assert words[0].endswith("They hide.")
    assert words[1:] == ["They are small. They hide.", "Eels."]
