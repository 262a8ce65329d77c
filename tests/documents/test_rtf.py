r"""Rich Text (RTF)."""

from random import Random

import pytest

from foveate.documents import Document, DocumentError

STYLES = (
    r"{\stylesheet{\ql \snext0 Normal;}{\s1\ql\b \sbasedon0 \snext0 heading 1;}"
    r"{\s2 Title;}{\s3 toc 1;}{\s4 caption;}{\*\cs10 \additive Default;}}"
)


def rtf(body, header=r"\ansi\ansicpg1252"):
    return f"{{\\rtf1{header}{{\\fonttbl{{\\f0\\fnil Arial;}}}}{STYLES}{body}}}".encode("latin-1")


def read(body, header=r"\ansi\ansicpg1252"):
    return Document.from_bytes(rtf(body, header))


def kinds(document):
    paragraphs = document.paragraphs()
    spans = iter(document.spans())
    return [
        (paragraph.kind, *{span.place: 0 for span in located}, *(span.text for span in located))
        for paragraph in paragraphs
        for located in [[next(spans) for _ in paragraph.sentences]]
    ]


def texts(document):
    return [sentence.text for sentence in document.sentences()]


def test_paragraphs_headings_title_and_contents(outline, in_source):
    document = read(
        r"{\info{\title Other}}\pard\s2 The Sea\par\pard\s3 Fish 1\par"
        r"\pard\s1\outlinelevel0 Fish\par\pard\plain Cod swim. They eat.\par More.\par"
        r"\pard\outlinelevel1 Eels\par\pard Last.\par\pard\s4 Figure 1\par\pard\outlinelevel9 Body."
    )
    assert document.title == "The Sea"
    assert outline(document) == [
        ("Fish", ["Cod swim.", "They eat.", "More."]),
        ("Fish > Eels", ["Last.", "Figure 1", "Body."]),
    ]
    assert in_source(document) == texts(document)
    assert kinds(document)[0][1] == "paragraph 4"
    assert [kind for kind, *_ in kinds(document)] == ["prose", "prose", "prose", "caption", "prose"]


def test_the_title_of_the_properties_and_headings_by_style(outline):
    title = r"{\info{\title Fisch & \'c4l}}"
    document = read(title + r"\pard\s1 One\par\pard A.\par\pard\s1 Two\par\pard B.")
    assert document.title == "Fisch & Äl"
    assert outline(document) == [("One", ["A."]), ("Two", ["B."])]


@pytest.mark.parametrize(
    ("body", "header", "text"),
    [
        (r"Gr\'fc\'dfe \u8217?s \u-4051?\emdash", r"\ansi\ansicpg1252", "Grüße ’s \uf02d—"),
        (r"Gr\'fc\'dfe", r"\ansi", "Grüße"),
        ("Grüße", r"\ansi\ansicpg1252", "Grüße"),
        (r"\'cf\'f0\'e8", r"\ansi\ansicpg1251", "При"),
        (r"\'82\'a0", r"\ansi\ansicpg932", "あ"),
        (r"\u-10179?\u-8704?", r"\ansi", "😀"),
        (r"\u55357?", r"\ansi", "\ufffd"),
        (r"\{a\} b\\c d\~e f\_g", r"\ansi", "{a} b\\c d e f\u2011g"),
        ("a\\\nb", r"\ansi", "a b"),
    ],
)
def test_characters(body, header, text):
    assert " ".join(texts(read(body, header))) == text


def test_the_code_page_of_a_font():
    font = r"{\fonttbl{\f0\fnil\fcharset0 Arial;}{\f1\fnil\fcharset204{\*\fname Arial;}Arial CYR;}}"
    document = Document.from_bytes(rf"{{\rtf1\ansi{font}\f1\'cf\'f0\'e8 \f0\'e4}}".encode())
    assert texts(document) == ["При ä"]


def test_tables_and_footnotes():
    def row(*cells, head=""):
        return rf"\trowd{head}" + "".join(rf"\pard\intbl {cell}\cell" for cell in cells) + r"\row"

    note = r"\footnote\pard\plain {\super\chftn} See Smith.\par Twice."
    document = read(
        rf"Before.{{\super\chftn}}{{{note}}}\par"
        + row("Item", "Price", head=r"\trhdr")
        + row(r"Support\par line", "450 a|b")
        + row(rf"Training{{\*{note}}}", "")
        + r"\pard After.\par"
        + row("Alone.")
        + row("Below.")
        + r"\pard"
    )
    assert kinds(document) == [
        ("prose", "paragraph 1", "Before."),
        ("footnote", "footnote 1", "See Smith.", "Twice."),
        (
            "table",
            "table 1, row 2",
            "table 1, row 3",
            "Item: Support line; Price: 450 a|b",
            "Item: Training",
        ),
        ("footnote", "footnote 2", "See Smith.", "Twice."),
        ("prose", "paragraph 2", "After."),
        ("prose", "paragraph 3", "Alone."),
        ("prose", "paragraph 4", "Below."),
    ]


def test_lists():
    document = read(
        r"{\listtext\f3\'b7\tab}Bullet\par{\pntext 2.\tab}Second. Third.\par"
        r"{\listtext (a)\tab}letter\par Name:\tab Smith\par"
    )
    assert kinds(document) == [
        ("item", "paragraph 1", "Bullet"),
        ("item", "paragraph 2", "2. Second.", "Third."),
        ("item", "paragraph 3", "(a) letter"),
        ("prose", "paragraph 4", "Name: Smith"),
    ]


def test_what_is_not_shown():
    link = r'{\field{\*\fldinst{HYPERLINK "http://x.org"}}{\fldrslt a link}}'
    picture = r"{\pict\pngblip ffd8 0011{\*\x}00}{\pict\bin8 }{\}{}xx}"
    document = read(
        rf"{{\header Head}}Shown, {link}{picture}{{\*\bkmkstart x}}{{\deleted gone}}"
        r"{\*\unknown gone} and\line{\b bold}.\par"
    )
    assert texts(document) == ["Shown, a link and bold."]


@pytest.mark.parametrize("content", [b"", b"junk", b"{\\rt", b"PK\x03\x04"])
def test_other_files_are_refused(tmp_path, content):
    path = tmp_path / "x.rtf"
    path.write_bytes(content)
    with pytest.raises(DocumentError, match=r"x\.rtf cannot be read as RTF"):
        Document.from_file(path)


def test_damaged_files_are_read_or_refused_in_a_sentence():
    whole = rtf(
        r"\pard\s1 Fish\par\pard Cod \u8217?\'e4{\footnote x}\par\trowd\intbl a\cell b\cell\row"
        r"{\pict\bin3 abc}{\field{\*\fldinst{HYPERLINK}}{\fldrslt x}}"
    )
    random, read_at_all = Random(0), 0
    for _ in range(200):
        damaged = bytearray(whole[: random.randrange(len(whole))])
        for _ in range(random.randrange(8)):
            damaged[random.randrange(len(damaged) + 1) - 1 :][:1] = b"{\\}u9"[: random.randrange(4)]
        try:
            Document.from_bytes(bytes(damaged), format="rtf")
            read_at_all += 1
        except DocumentError as error:
            assert str(error).startswith("The data ")  # noqa: PT017
    assert read_at_all


def test_the_characters_for_old_readers_are_not_shown_in_any_font():
    fonts = r"{\fonttbl{\f0\fnil Arial;}{\f1\fnil\fcharset2 Symbol;}}"
    body = (
        r"\uc1{\listtext\f1\u8226\'b7\tab}Open the gate\par{\listtext\f1\u-3913\'b7\tab}Wait\par"
        r"{\f1\u945\'61} and {\uc2\u946 xx}, {\uc0\u947}c, 5 {\super\u178 2}{\v\u88 X}.\par"
    )
    data = rf"{{\rtf1\ansi\ansicpg1252{fonts}{body}}}".encode()
    document = Document.from_bytes(data)
    assert texts(document) == ["Open the gate", "Wait", "α and β, γc, 5 ²."]
    assert [one.kind for one in document.paragraphs()][:2] == ["item", "item"]


def test_scripts_symbols_and_what_is_hidden():
    fonts = r"{\fonttbl{\f0\fnil Arial;}{\f3\froman\fcharset2 Symbol;}}"
    body = (
        r"It is 10{\super 3} N per m{\super 2} on the 2{\super nd} day. As shown{\super 1}, "
        r"x\sub i\nosupersub  rose by {\f3 a\'62} in the Frei\-berg{\v SECRET {\b too} \v0 now}."
    )
    data = rf"{{\rtf1\ansi\ansicpg1252{fonts}{body}\par}}".encode()
    assert texts(Document.from_bytes(data)) == [
        "It is 10^3 N per m^2 on the 2nd day.",
        "As shown, x_i rose by αβ in the Freibergnow.",
    ]
