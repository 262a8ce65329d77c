"""The headings of PDFs, and the sections that they make."""

from reportlab.pdfbase.pdfmetrics import stringWidth

from tests.documents.pdfs import LOREM, PITCH, Writer, document_of, kinds, paper, texts


def test_title_and_headings_by_their_looks():
    document = document_of(paper())
    assert document.title == "Dredging the Harbour of Ys"
    assert [section.title for section in document.sections] == [
        "",
        "Abstract",
        "1 Introduction",
        "2 Results",
    ]
    assert kinds(document)[0] == ("prose", ["Ann Lee and Bob Roe"])


def test_outline_names_headings_and_levels():
    writer = Writer(initialFontName="Times-Roman")
    y = 100
    for level, title in [(0, "Ships"), (1, "Their masts"), (0, "Harbours")]:
        writer.bookmark(title, level, y)
        writer.text(72, y, title, "Times-Italic")
        y = writer.column(72, y + 20, 440, LOREM) + 20
    writer.page()
    sections = document_of(writer.bytes()).sections
    assert [section.title for section in sections] == ["Ships", "Harbours"]
    assert [section.title for section in sections[0].sections] == ["Their masts"]


def test_numbering_gives_levels():
    writer = Writer()
    y = 80
    for title in ["1 Ships", "1.1 Masts", "1.2 Sails", "2 Harbours"]:
        writer.text(72, y, title, "Times-Bold", 12)
        y = writer.column(72, y + 20, 440, LOREM) + 20
    writer.page()
    sections = document_of(writer.bytes()).sections
    assert [section.title for section in sections] == ["1 Ships", "2 Harbours"]
    assert [s.title for s in sections[0].sections] == ["1.1 Masts", "1.2 Sails"]


def test_comments_of_listings_are_no_headings():
    writer = Writer()
    y = writer.column(72, 100, 440, LOREM * 2)
    for line in ["# Install", "apt install foo", "", "# 1 Remove", "    apt remove foo"]:
        writer.text(72, y + 10, line, "Courier-Bold", 9)
        y += PITCH
    writer.column(72, y + 20, 440, LOREM * 2)
    writer.page()
    document = document_of(writer.bytes())
    assert [section.title for section in document.sections] == [""]
    assert texts(document, "code") == ["# Install\napt install foo\n# 1 Remove\n    apt remove foo"]


def test_theorems_and_their_items_are_no_headings():
    writer = Writer()
    writer.text(72, 80, "1 Ships", "Times-Bold", 12)
    y = writer.column(72, 100, 440, LOREM)
    for words, font in [
        *(("Theorem 1.2 (Roe)", "Times-Bold"), ("A. Every ship sinks.", "Times-Italic")),
        *(("Proof", "Times-Bold"), ("B. No net is full.", "Times-Italic")),
    ]:
        writer.text(72, y + 10, words, font)
        y = writer.column(72, y + 30, 440, LOREM)
    writer.text(72, y + 10, "A. Maintenance of Ships", "Times-Italic")
    writer.column(72, y + 30, 440, LOREM)
    writer.page()
    headings = [path[-1] for path, _ in document_of(writer.bytes()).walk()]
    assert headings == ["1 Ships", "A. Maintenance of Ships"]


def test_numbered_headings_run_in():
    writer = Writer(initialFontName="Times-Roman")
    writer.text(72, 80, "1 Ships", "Times-Bold", 12)
    y = writer.column(72, 100, 440, LOREM) + 6
    title = "1) Masts of ships: "
    writer.text(72, y, title, "Times-Italic")
    writer.text(72 + stringWidth(title, "Times-Italic", 10), y, "They are made of oak and tar.")
    writer.text(72, y + PITCH, "2) No heading: in ordinary type, that is an item.")
    writer.page()
    [section] = document_of(writer.bytes()).sections
    assert [inner.title for inner in section.sections] == ["1) Masts of ships"]
    first, second = section.sections[0].paragraphs
    assert [sentence.text for sentence in first.sentences] == ["They are made of oak and tar."]
    assert second.kind == "item"


def centred(*shown):
    """Read a page of paragraphs below centred headings, which end in "#"."""
    writer, y = Writer(), 80
    for text in shown:
        if text.endswith("#"):
            for line in text[:-1].split("\n"):
                writer.center(y, line)
                y += PITCH
            y += 10
        else:
            y = writer.column(72, y, 468, text) + 8
    writer.page()
    return document_of(writer.bytes())


def test_sections_of_statutes_are_in_parts():
    text = "(1) The harbour was closed in winter because the ice reached the outer piers."
    writer = Writer()
    writer.center(50, "An Act about Harbours", size=18)
    y = 90
    for part, first in [("Part 1 Dues", 1), ("Part 2 Pilots", 3)]:
        for heading in [part, f"§ {first}. Scope.", f"§ {first + 1}. Collection of dues."]:
            writer.center(y, heading)
            if heading != part:
                y = writer.column(72, y + 20, 468, text)
            y += 20
    writer.page()
    sections = document_of(writer.bytes()).sections
    assert [(one.title, [inner.title for inner in one.sections]) for one in sections] == [
        ("Part 1 Dues", ["§ 1. Scope.", "§ 2. Collection of dues."]),
        ("Part 2 Pilots", ["§ 3. Scope.", "§ 4. Collection of dues."]),
    ]


def test_recitals_are_headed():
    document = centred(
        "This agreement is between Ann Lee and Bob Roe.",
        "RECITALS#",
        "The harbour was closed.",
        "TERMS#",
        LOREM * 2,
    )
    assert [section.title for section in document.sections] == ["", "RECITALS", "TERMS"]


def test_headings_as_wide_as_their_column():
    writer = Writer()
    writer.column(54, 60, 240, LOREM * 2)
    title = "2 Of ships, pilots and harbours, and ice in them"
    size = 10 * 239 / stringWidth(title, "Times-Bold", 10)
    writer.text(54, 300, title, "Times-Bold", size)
    writer.column(54, 314, 240, LOREM * 2, last=False)
    writer.column(318, 60, 240, LOREM * 4)
    writer.page()
    assert [section.title for section in document_of(writer.bytes()).sections] == ["", title]


def test_headings_of_manual_pages():
    """They stand out to the left, and terms stand out from what explains them."""
    writer = Writer()
    y = 80
    for head, text in (("NAME", "mill - grinds grain into flour"), ("OPTIONS", LOREM)):
        writer.text(54, y, head, "Times-Bold", 11)
        y = writer.column(90, y + PITCH, 440, text) + 12
    for term in ("MILL_HOME", "STONES"):
        writer.text(90, y, term, "Times-Bold", 9)
        y = writer.column(126, y + PITCH, 404, LOREM * 2) + 12
    writer.text(69, y, "Wheels and Stones", "Times-Bold", 10)
    y = writer.column(90, y + PITCH, 440, LOREM)
    writer.page()
    document = document_of(writer.bytes())
    titles = [(len(path), section.title) for path, section in document.walk()]
    depth = titles[0][0]
    assert titles == [(depth, "NAME"), (depth, "OPTIONS"), (depth + 1, "Wheels and Stones")]


def test_clauses_in_ordinary_type():
    writer = Writer()
    writer.text(72, 80, "TERMS AND CONDITIONS", "Times-Bold", 14)
    y = 110
    names = ("Definitions", "Water Rights", "Grinding of Grain", "Duties of the Miller")
    names = [f"{n}. {name}." for n, name in enumerate((*names, "Patents", "Notices"))]
    for name in names:
        writer.text(78, y, name)
        y = writer.column(90, y + 18, 420, "A miller grinds. " + LOREM) + 12
    writer.page()
    document = document_of(writer.bytes())
    assert document.title == "TERMS AND CONDITIONS"
    assert [section.title for section in document.sections] == names


def test_roman_numbers_letters_and_numbers_nest():
    writer = Writer()
    y = 80
    heads = ("I. MILLS", "A. Wheels", "1. Oak", "2. Iron", "B. Stones", "II. OVENS", "A. Bread")
    for head in heads:
        writer.center(y, head, size=10)
        y = writer.column(72, y + 18, 440, LOREM) + 15
    writer.page()
    document = document_of(writer.bytes())
    levels = [(len(path), section.title) for path, section in document.walk() if section.title]
    first = min(level for level, _ in levels)
    assert [(level - first + 1, title) for level, title in levels] == list(
        zip((1, 2, 3, 3, 2, 1, 2), heads, strict=True)
    )
