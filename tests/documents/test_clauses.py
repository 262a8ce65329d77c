"""Clauses whose numbered headings share a paragraph with their text."""

import time

import pytest

from foveate import Document

CONTRACT = """MASTER AGREEMENT

This agreement is between Halden Inc. and Morrow Ltd.

1. DEFINITIONS

1.1 Affiliate. "Affiliate" means an entity that a party controls. Control means a majority.

1.1.1 Exclusions. A trust is no affiliate.

1.2 Change of Control: A sale of all shares is one.

2. SERVICES

2.1 Statements of Work. Morrow shall perform them. See Section 1.2.

2.2 The parties shall meet every month.

(a) They meet in Boston.

2.3 Prof. Morrow leads them."""

HEADINGS = [
    "1. DEFINITIONS > 1.1 Affiliate",
    "1. DEFINITIONS > 1.1 Affiliate > 1.1.1 Exclusions",
    "1. DEFINITIONS > 1.2 Change of Control",
    "2. SERVICES > 2.1 Statements of Work",
    "2. SERVICES > 2.2",
    "2. SERVICES > 2.3",
]

LICENCE = """SOFTWARE LICENCE

1. Grant of Rights. Licensor grants a licence to use the software. No other rights are granted.

2. Restrictions. Licensee shall not rent it.

3. Term and Termination.

(a) This licence lasts a year.

4. Governing Law; Venue. The law of Delaware governs."""


def sections(document):
    return list(dict.fromkeys(" > ".join(span.path) for span in document.spans() if any(span.path)))


def in_html(text):
    return "".join(f"<p>{paragraph}</p>" for paragraph in text.split("\n\n"))


@pytest.mark.parametrize("format", ["text", "html"])
def test_decimal_numbers(format):
    text = in_html(CONTRACT) if format == "html" else CONTRACT
    document = Document.from_text(text, format=format)
    assert sections(document) == HEADINGS
    shown = {span.text: span for span in document.spans()}
    assert '"Affiliate" means an entity that a party controls.' in shown
    assert "1.1 Affiliate." not in shown
    assert shown["(a) They meet in Boston."].path == ("2. SERVICES", "2.2")
    span = shown["Morrow shall perform them."]
    assert text[span.start : span.end] == span.text


@pytest.mark.parametrize("format", ["text", "html"])
def test_single_numbers(format):
    text = in_html(LICENCE) if format == "html" else LICENCE
    document = Document.from_text(text, format=format)
    assert document.title == "SOFTWARE LICENCE"
    assert sections(document) == [
        "1. Grant of Rights",
        "2. Restrictions",
        "3. Term and Termination",
        "4. Governing Law; Venue",
    ]


def test_sections_by_name():
    text = (
        "<h1>Lease</h1><h2>Article I</h2><p>Section 1.01 <u>Meaning of Words</u>. Rent is rent.</p>"
        "<p>Section 1.02 <u>Notice</u>. It is given in writing.</p><h2>Article II</h2>"
        "<p>Section 2.01&nbsp;&nbsp;<u>Rent</u>. The tenant pays it.</p>"
    )
    assert sections(Document.from_text(text, format="html")) == [
        "Article I > Section 1.01 Meaning of Words",
        "Article I > Section 1.02 Notice",
        "Article II > Section 2.01 Rent",
    ]


@pytest.mark.parametrize(
    "text",
    [
        # instructions
        "1.1 Open the lid. Remove it.\n\n1.2 Lift the tray. Clean it.\n\n1.3 Close the lid. Wait.",
        # most clauses have no title
        "1.1 Notices. They are short.\n\n1.2 We pay.\n\n1.3 You pay.\n\n1.4 They pay.",
        # numbers in prose
        "12 Monkeys. It is a film.\n\n7 Samurai. It is another.\n\n9 Lives. A cat has them.",
        # releases, which do not follow from each other
        "1.4 Speed. It is fast.\n\n1.9 Size. It is small.\n\n2.7 Cost. It is cheap.",
    ],
)
def test_other_numbered_paragraphs_are_text(text):
    assert sections(Document.from_text(text)) == []


def test_a_list_in_a_document_with_headings_is_text():
    points = "1. Speed. It is fast.\n\n2. Size. It is small.\n\n3. Cost. It is cheap."
    text = f"# Tool\n\n## Why\n\n{points}\n\n## Install\n\n" + 20 * "Run the installer again. "
    assert sections(Document.from_text(text, format="markdown")) == ["Why", "Install"]


def test_paragraphs_of_statutes():
    text = (
        "THE ACT\n\nCHAPTER 1. GENERAL\n\n§ 101. Short Title\n\nIt is cited as the Health Act.\n\n"
        '§ 102. Definitions. (a) A "board" is a board.\n\n(b) See § 101(a).\n\n'
        "§ 103. Powers of the Board. The Board may adopt rules.\n\n"
        "§ 104. Penalties. A person who violates this chapter is fined.\n\n"
        "CHAPTER 2. FEES\n\n§ 201. Fees. The Board sets them."
    )
    assert sections(Document.from_text(text)) == [
        "CHAPTER 1. GENERAL > § 101. Short Title",
        "CHAPTER 1. GENERAL > § 102. Definitions",
        "CHAPTER 1. GENERAL > § 103. Powers of the Board",
        "CHAPTER 1. GENERAL > § 104. Penalties",
        "CHAPTER 2. FEES > § 201. Fees",
    ]


def test_clauses_are_beside_those_that_are_headings_of_their_own():
    text = (
        "ARTICLE 1 TERMS\n\nSECTION 1.1 Words: They have meanings.\n\nSECTION 1.2 Loans\n\n"
        "They are long.\n\nSECTION 1.3 Rates: They are low.\n\nARTICLE 2 END\n\n"
        "SECTION 2.1 Notices: None is due.\n\nSECTION 2.2 Law\n\nIt is old."
    )
    assert sections(Document.from_text(text)) == [
        "ARTICLE 1 TERMS > SECTION 1.1 Words",
        "ARTICLE 1 TERMS > SECTION 1.2 Loans",
        "ARTICLE 1 TERMS > SECTION 1.3 Rates",
        "ARTICLE 2 END > SECTION 2.1 Notices",
        "ARTICLE 2 END > SECTION 2.2 Law",
    ]


@pytest.mark.parametrize("start", ["1. Notice.", "1. Notice :", "Section 1."])
def test_long_gaps_are_read_at_once(start):
    text = f"{start}{' ' * 20_000}a b\n\nSection 2. Notice. Text.\n\nSection 3. Notice. Text."
    begin = time.process_time()
    Document.from_text(text)
    assert time.process_time() - begin < 1
