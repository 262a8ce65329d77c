"""Plain text: what is a heading, and what is not."""

import textwrap
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foveate.documents import Document
from foveate.documents.readers.plain.lines import line_blocks


def headings(text):
    return [" > ".join(path) for path, _ in Document.from_text(text).walk()]


def test_books_and_chapters():
    text = (
        "A Novel\n\nBOOK ONE: 1805\n\nCHAPTER I\n\nText one.\n\nCHAPTER II\n\nText two.\n\n"
        "Book Two\n\nChapter 1. Of Things\nand More\n\nText three.\n\nEPILOGUE\n\nText four."
    )
    assert Document.from_text(text).title == "A Novel"
    assert headings(text) == [
        "BOOK ONE: 1805",
        "BOOK ONE: 1805 > CHAPTER I",
        "BOOK ONE: 1805 > CHAPTER II",
        "Book Two",
        "Book Two > Chapter 1. Of Things and More",
        "EPILOGUE",
    ]


@pytest.mark.parametrize(
    "titles", [("THE SHORE", "THE END OF DAYS"), ("The Shore", "The End of Days")]
)
def test_titles_below_the_numbers_of_chapters(titles):
    one, two = titles
    text = (
        "THE PORT\n\nCONTENTS\n\nPREFACE . . . . . . v\n\nPART I. SHIPS\n\n"
        f"I. {one} . . . . . . 1\n\nII. {two} . . . . . . 20\n\n\nPREFACE\n\nIt is old.\n\n"
        f"PART I\n\nSHIPS\n\nCHAPTER I\n\n{one}\n\nText one.\n\n* * * * *\n\nMore.\n\n"
        f"CHAPTER II\n\n{two}\n\nText two."
    )
    assert headings(text) == [
        "PREFACE",
        "PART I SHIPS",
        f"PART I SHIPS > CHAPTER I {one}",
        f"PART I SHIPS > CHAPTER II {two}",
    ]
    assert "*" not in "".join(one.text for one in Document.from_text(text).sentences())


def test_unnumbered_headings_in_capitals_among_others():
    text = "THE LEASE\n\nBACKGROUND\n\nText.\n\n1. TERM\n\nText.\n\n2. FEES\n\nText."
    assert headings(text) == ["BACKGROUND", "1. TERM", "2. FEES"]
    assert headings(text.replace("TERM", "Term").replace("FEES", "Fees")) == [
        "",
        "1. Term",
        "2. Fees",
    ]


def test_clauses_whose_headings_share_a_line_with_their_text():
    text = (
        "A LEASE\n\nARTICLE I\nTERMS\n\nSection 1.01 Meaning of Words. Here, rent is the rent.\n\n"
        "Section 1.02 Notice. Notice is given in writing and sent by a\ncourier. See Section "
        "2.01.\n\n"
        "ARTICLE II\nRENT\n\nSection 2.01. The tenant pays rent.\n\n"
        "SCHEDULE A\n\nIt has two rooms."
    )
    document = Document.from_text(text)
    assert headings(text) == [
        "ARTICLE I TERMS",
        "ARTICLE I TERMS > Section 1.01 Meaning of Words",
        "ARTICLE I TERMS > Section 1.02 Notice",
        "ARTICLE II RENT",
        "ARTICLE II RENT > Section 2.01",
        "SCHEDULE A",
    ]
    assert [one.text for one in document.sentences()] == [
        "Here, rent is the rent.",
        "Notice is given in writing and sent by a courier.",
        "See Section 2.01.",
        "The tenant pays rent.",
        "It has two rooms.",
    ]
    assert text[document.sections[0].sections[0].paragraphs[0].sentences[0].start :].startswith(
        "Here, rent"
    )


def test_a_sentence_behind_the_number_of_an_article_is_text():
    text = (
        "Section 1. The buyer pays the price.\n\nHe pays on time.\n\nSection 2. No one else pays."
    )
    assert [one.text for one in Document.from_text(text).sentences()] == [
        "Section 1. The buyer pays the price.",
        "He pays on time.",
        "Section 2. No one else pays.",
    ]


def test_articles_directly_above_their_text():
    text = "THE LAW\n\nArticle 1\nFishing is free.\n\nArticle 2\nIt is free for all.\nSo be it."
    assert headings(text) == ["Article 1", "Article 2"]


def test_articles_are_within_chapters_of_statutes():
    text = (
        "TITRE Ier\nPRINCIPES\n\nChapitre Ier\nObjet\n\nArticle 1er\n\nLa pêche est libre.\n\n"
        "Article 2\n\nElle est libre pour tous.\n\nChapitre II\nPeines\n\nArticle 3\n\nIl n'y en a "
        "pas.\n\nTITRE II\nFIN\n\nArticle 4\n\nLa loi est finie."
    )
    first, second = "TITRE Ier PRINCIPES", "TITRE II FIN"
    assert headings(text) == [
        first,
        f"{first} > Chapitre Ier Objet",
        f"{first} > Chapitre Ier Objet > Article 1er",
        f"{first} > Chapitre Ier Objet > Article 2",
        f"{first} > Chapitre II Peines",
        f"{first} > Chapitre II Peines > Article 3",
        second,
        f"{second} > Article 4",
    ]


@pytest.mark.parametrize(
    "parts",
    [
        ("Erster Abschnitt\nAllgemeines", "Zweiter Abschnitt\nStrafen", "Anlage 1 (zu § 3)"),
        ("Première partie", "Deuxième partie", "Annexe 1"),
        ("CAPÍTULO PRIMERO", "CAPÍTULO SEGUNDO", "ANEXO I"),
        ("Sec. 101. Definitions", "Sec. 102. Scope: In general", "Appendix A"),
        ("제1장 총칙", "제2장 면허", "제3장"),
        ("الباب الأول", "الباب الثاني", "المادة 1"),
        ("Статья 1. Общие положения", "Статья 2. Права", "Раздел III"),
    ],
)
def test_parts_of_laws_in_several_languages(parts):
    first, second, last = parts
    text = f"{first}\n\nText one.\n\n{second}\n\nText two.\n\n{last}\n\nText three."
    assert [path.split(" > ")[-1] for path in headings(text)] == [
        " ".join(part.split()) for part in parts
    ]


def test_articles_with_a_title_on_the_line_above_their_text():
    text = (
        "CONVENTION\n\nArticle 1. Scope\nThis Convention applies to all seas. It does not apply to "
        "lakes.\n\nArticle 2. Quotas\nEach Party shall set quotas, and it shall publish them.\n\n"
        "Article 3. The State\n\nIt is sovereign."
    )
    assert headings(text) == ["Article 1. Scope", "Article 2. Quotas", "Article 3. The State"]


def test_titles_that_end_in_a_full_stop_among_clauses():
    text = (
        "BYLAWS\n\nSection 1. Dues. They are low.\n\nSection 2. Terms. They are long.\n\n"
        "Section 3. Meetings.\n\nThey are rare."
    )
    assert headings(text) == ["Section 1. Dues", "Section 2. Terms", "Section 3. Meetings."]


def test_paragraphs_about_sections_are_no_clauses():
    text = (
        "A history\n\nIt is an old law.\n\nSection 230. The law protects platforms. It is "
        "short.\n\n"
        "Many argue about it.\n\nSection 2. People differ. Some courts read it broadly."
    )
    assert headings(text) == [""]


def test_parts_of_schedules():
    text = (
        "THE DEED\n\n1. Trust\n\nText.\n\n2. Law\n\nText.\n\nSCHEDULE 1\n\n"
        "Part 1 - Shares\n\nText.\n\nPart 2 - Heirs\n\nText.\n\nSCHEDULE 2\n\nText."
    )
    assert headings(text) == [
        "1. Trust",
        "2. Law",
        "SCHEDULE 1",
        "SCHEDULE 1 > Part 1 - Shares",
        "SCHEDULE 1 > Part 2 - Heirs",
        "SCHEDULE 2",
    ]


def test_numbers_divide_headings_with_letters():
    text = (
        "I. METHODS\n\nA. Tags\n\nText.\n\n1. First stage\n\nText.\n\n2. Second stage\n\nText.\n\n"
        "B. Counts\n\n1. By eye\n\nText.\n\nII. RESULTS\n\nA. Numbers\n\nText."
    )
    assert headings(text) == [
        "I. METHODS",
        "I. METHODS > A. Tags",
        "I. METHODS > A. Tags > 1. First stage",
        "I. METHODS > A. Tags > 2. Second stage",
        "I. METHODS > B. Counts",
        "I. METHODS > B. Counts > 1. By eye",
        "II. RESULTS",
        "II. RESULTS > A. Numbers",
    ]


def test_letters_divide_numbered_headings():
    text = (
        "MINUTES OF THE MEETING\n\n1. OPENING\n\nText.\n\n2. OLD BUSINESS\n\n"
        "A. Pump\n\nText.\n\nB. Rates\n\nText.\n\n3. NEW BUSINESS\n\nA. Staff\n\nText."
    )
    assert Document.from_text(text).title == "MINUTES OF THE MEETING"
    assert headings(text) == [
        "1. OPENING",
        "2. OLD BUSINESS",
        "2. OLD BUSINESS > A. Pump",
        "2. OLD BUSINESS > B. Rates",
        "3. NEW BUSINESS",
        "3. NEW BUSINESS > A. Staff",
    ]


def test_the_first_chapter_after_contents_that_begin_with_other_sections():
    text = (
        "ABSTRACT\n\nIt is short.\n\nTABLE OF CONTENTS\n\nAbstract                 ii\n"
        "Thanks                  iii\nChapter 1: Cod            1\n    1.1 Past              1\n"
        "Chapter 2: Nets           5\n\nCHAPTER 1: COD\n\n1.1 Past\n\nText one.\n\n"
        "CHAPTER 2: NETS\n\nText two."
    )
    assert headings(text) == [
        "ABSTRACT",
        "CHAPTER 1: COD",
        "CHAPTER 1: COD > 1.1 Past",
        "CHAPTER 2: NETS",
    ]


def test_books_of_project_gutenberg_are_read_without_its_licence():
    text = (
        "The Project Gutenberg eBook of Cod\n\nTitle: Cod\n\nAuthor: Ann Lee\n\n"
        "*** START OF THE PROJECT GUTENBERG EBOOK COD ***\n\nCHAPTER I.\n\nTHE SEA\n\n"
        "It blows.\n\nCHAPTER II.\n\nTHE NET\n\nIt is torn.\n\n"
        "*** END OF THE PROJECT GUTENBERG EBOOK COD ***\n\n"
        "THE FULL LICENSE\n\nSection 1. General Terms of Use."
    )
    document = Document.from_text(text)
    assert (document.title, document.authors) == ("Cod", ("Ann Lee",))
    assert headings(text) == ["CHAPTER I. THE SEA", "CHAPTER II. THE NET"]
    assert [one.text for one in document.sentences()] == ["It blows.", "It is torn."]


def test_titles_of_clauses_that_are_wrapped_within_their_capitals():
    text = "The parties agree on this.\n\n" + "\n\n".join(
        f"SECTION 2.{number}.        {first}\n{rest}. Borrower is a corporation, duly organized "
        "and existing under\nthe laws of Minnesota, and is in good standing there."
        for number, first, rest in [(1, "LEGAL", "STATUS"), (2, "LITIGATION", "AND CLAIMS")]
    )
    assert headings(text)[-2:] == [
        "SECTION 2.1. LEGAL STATUS",
        "SECTION 2.2. LITIGATION AND CLAIMS",
    ]


def test_words_that_only_become_those_of_parts_in_small_letters():
    text = "SECT\u0130ON 1\n\nText is here.\n\nCHAPTER 2\n\nMore text."
    assert headings(text) == ["", "CHAPTER 2"]


def test_numbered_headings():
    text = (
        "Abstract\n\nText.\n\n1 Introduction\n\nText.\n\n2 Methods\n\n2.1 Data\n\nText.\n\n"
        "2.1.1 More Data\n\nText.\n\n2.2 Model\n\nText.\n\n3. Results\n\nText.\n\n"
        "References\n\nText."
    )
    assert headings(text) == [
        "Abstract",
        "1 Introduction",
        "2 Methods",
        "2 Methods > 2.1 Data",
        "2 Methods > 2.1 Data > 2.1.1 More Data",
        "2 Methods > 2.2 Model",
        "3. Results",
        "References",
    ]


def test_underlined_headings():
    text = "Report\n======\n\nLead.\n\nOne\n---\nText.\n\nTwo\n---\n\nText.\n"
    assert headings(text) == ["", "One", "Two"]
    assert Document.from_text(text).title == "Report"


def test_an_abstract_holds_no_chapters_where_there_is_an_appendix():
    names = ["Abstract", "1 Mills", "2 Wheels", "2.1 Wood", "References", "Appendix A Tables"]
    text = "The Mill\n\n" + "".join(f"{name}\n\nIt turns all year long.\n\n" for name in names)
    assert headings(text) == [*names[:3], "2 Wheels > 2.1 Wood", *names[4:]]


def test_capitals():
    text = "RIGHTS OF WAY\n\nText.\n\nDUTIES\n\nText."
    assert headings(text) == ["RIGHTS OF WAY", "DUTIES"]


@pytest.mark.parametrize(
    "text",
    [
        "The end of\nCHAPTER I\nis near.",
        "Part of it was good.\n\nChapter and verse.",
        "1. Buy milk\n\n2. Buy bread\n\n3. Rest",
        "3 Men in a Boat\n\nText.\n\n7 Days Later\n\nText.",
        "1 It is.\n\nText.\n\n2 It was.\n\nText.",
        "CONFIDENTIAL\n\nText.\n\nCONFIDENTIAL\n\nText.\n\nCONFIDENTIAL\n\nText.",
        "“STOP!”\n\nText.\n\nHe said:\n\nUSA",
        "* * *\n\nText.\n\n-----\n\nText.",
    ],
)
def test_what_only_looks_like_a_heading(text):
    assert headings(text) == [""]


CHAPTERS = "CHAPTER I. Before\n\nText.\n\nCHAPTER II. After\n\nText.\n\nCHAPTER III. Now\n\nText."


@pytest.mark.parametrize(
    "contents",
    [
        "CONTENTS\n\nCHAPTER I. Before\n\nCHAPTER II. After\n\nCHAPTER III. Now\n\n",
        "Contents\n\nCHAPTER I. Before .... 1\nCHAPTER II. After .... 9\nCHAPTER III. Now  17\n\n",
        "CHAPTER I. Before\n\nCHAPTER II. After\n\nCHAPTER III. Now\n\n",
    ],
    ids=["announced", "with pages", "unannounced"],
)
def test_a_table_of_contents_is_left_out(contents):
    document = Document.from_text(contents + CHAPTERS)
    assert [section.title for section in document.sections] == [
        "CHAPTER I. Before",
        "CHAPTER II. After",
        "CHAPTER III. Now",
    ]
    assert sum(1 for _ in document.sentences()) == 3


def test_spans_point_into_the_text_as_it_is(in_source):
    document = Document.from_text("  One\r\n  two. Three.\r\n\r\n\tFour.")
    assert in_source(document) == ["One\r\n  two.", "Three.", "Four."]


def test_contents_without_matching_headings_hide_no_text():
    text = (
        "Contents\n\nCHAPTER I\n\nA line.\n\nCHAPTER II\n\nA line more.\n\nCHAPTER III\n\nThe end."
    )
    assert headings(text) == ["", "CHAPTER I", "CHAPTER II", "CHAPTER III"]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("第一章", "第二章"),
        ("제1장", "제2장"),
        ("Erster Abschnitt", "Zweiter Abschnitt"),
        ("Chapter 1", "Chapter 2"),
    ],
)
def test_a_number_is_joined_with_the_title_below_it(first, second):
    blocks = [first, "大海", "鲸在海里游泳。鱼也在海里游泳。", second, "微风", "风吹过海面。"]
    text = "\n\n".join(blocks)
    titles = [section.title for _, section in Document.from_text(text).walk()]
    assert titles == [f"{first} 大海", f"{second} 微风"]


def paragraphs(text):
    return [(p.kind, [s.text for s in p.sentences]) for p in Document.from_text(text).paragraphs()]


@pytest.mark.parametrize(
    "titles",
    [
        ["Kapitel 1: Rechte", "Kapitel 2: Pflichten"],
        ["Chapitre IV", "Chapitre V"],
        ["Capítulo 1. Derechos", "Capítulo 2. Deberes"],
        ["第一章 总则", "第二章 权利"],
        ["第1条", "第2条"],
        ["§ 3 Begriffe", "§ 4 Geltung"],
        ["Annex A", "Annex B"],
        ["Appendix A. More", "Appendix B. Most"],
        ["Zusammenfassung", "Einleitung"],
        ["1.1. What is this FAQ?", "1.2. What is foveate?"],
        ["A. Standard Procedure", "B. Other Procedure"],
        ["I. Introduction", "II. Methods"],
        ["0. Definitions.", "1. Source Code."],
        ["1. Use.", "2. Use with the Library."],
        ["Article 1er – Objet", "Article 2 – Durée"],
        ["Schedule 1", "Exhibit A"],
    ],
)
def test_headings_of_laws_manuals_and_other_languages(titles):
    text = "Ein Text, der am Anfang steht, ohne Titel.\n\n" + "\n\n".join(
        f"{title}\n\nEin Satz steht hier, er ist lang genug." for title in titles
    )
    assert headings(text) == ["", *titles]


def test_lettered_appendices_follow_numbered_sections():
    text = "\n\n".join(
        f"{title}\n\nText."
        for title in ["1. One", "1.1. More", "2. Two", "A. Order", "A.0. Proposal", "A.1. Debate"]
    )
    assert headings(text) == [
        "1. One",
        "1. One > 1.1. More",
        "2. Two",
        "A. Order",
        "A. Order > A.0. Proposal",
        "A. Order > A.1. Debate",
    ]


def test_items_of_lists_are_paragraphs_with_their_markers():
    text = (
        "Each decision is made by one of these:\n"
        "  1. The Developers, by election;\n"
        "  2. The Leader, who may\n"
        "     delegate it. They do.\n"
        "  * Nobody else.\n"
        "And this is prose again."
    )
    assert paragraphs(text) == [
        ("prose", ["Each decision is made by one of these:"]),
        ("item", ["1. The Developers, by election;"]),
        ("item", ["2. The Leader, who may delegate it.", "They do."]),
        ("item", ["* Nobody else."]),
        ("prose", ["And this is prose again."]),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "It happened in the year\n1805. Then it was over, as far\nas anybody knew.",
        "This clause holds for a period of five\n    (5) years.",
        "They went from here to there\n- nobody knows why - and\nback again.",
    ],
)
def test_a_wrapped_line_that_begins_like_an_item_is_prose(text):
    assert [kind for kind, _ in paragraphs(text)] == ["prose"]


def test_items_of_which_only_the_first_line_is_indented():
    first = "  1. You may copy the work (or a part\nof it) in any form. Tell us."
    second = "  2. You are not required to sign.\nAccept the terms by copying."
    assert paragraphs(f"{first}\n\n{second}") == [
        ("item", ["1. You may copy the work (or a part of it) in any form.", "Tell us."]),
        ("item", ["2. You are not required to sign."]),
        ("prose", ["Accept the terms by copying."]),
    ]


MANUAL = """\
                         The Manual

Contents

1. What is it?
    1.1. How does one use a manual that has titles which fill more
    than a line?
    1.2. Why?
2. When?

Chapter 1. What is it?

It is a manual.

1.1. How does one use a manual that has titles which fill more than
a line?

One reads it.

1.2. Why?

Because.

Chapter 2. When?

Now.
"""


def test_contents_with_wrapped_entries_list_the_headings():
    document = Document.from_text(MANUAL)
    assert document.title == "The Manual"
    titles = [path[-1] for path, _ in document.walk()]
    assert titles == [
        "Chapter 1. What is it?",
        "1.1. How does one use a manual that has titles which fill more than a line?",
        "1.2. Why?",
        "Chapter 2. When?",
    ]
    assert [one.text for one in document.sentences()] == [
        "It is a manual.",
        "One reads it.",
        "Because.",
        "Now.",
    ]


@pytest.mark.parametrize("word", ["Inhaltsverzeichnis", "Table des matières", "目录", "Índice"])
def test_contents_are_announced_in_several_languages(word):
    titles = ["1 Eins", "1.1 Zwei", "2 Drei"]
    text = "\n".join([word, "", *titles, "", *(f"{title}\n\nText.\n" for title in titles)])
    assert headings(text) == ["1 Eins", "1 Eins > 1.1 Zwei", "2 Drei"]


def test_heads_and_feet_of_pages_are_left_out():
    pages = [
        f"RFC 1234                 Reading                 May 2025\n\n   {body}\n\n\n"
        f"Lee                   Informational               [Page {number}]\n"
        for number, body in enumerate(
            ["It begins here and goes", "over the page. Then it stops.", "This is the end."],
            start=1,
        )
    ]
    document = Document.from_text("\f".join(pages))
    assert [one.text for one in document.sentences()] == [
        "It begins here and goes over the page.",
        "Then it stops.",
        "This is the end.",
    ]


LINES = [
    *(
        "Invoice number {n}",
        "Invoice      {big}",
        "Total due: {big} crowns",
        "Chapter {n}",
        "{date}",
    ),
    *(
        "{n}",
        "- {n} -",
        "Page {n} of 9",
        "Report of the mill      {n}",
        "It runs.",
        "The wheel {n}",
        "",
    ),
]


@given(
    st.lists(st.lists(st.sampled_from(LINES), max_size=6), min_size=3, max_size=6)
    | st.lists(st.sampled_from(LINES), min_size=1, max_size=6).map(lambda page: [page] * 5)
)
def test_nothing_on_a_page_is_lost_but_its_number(pages):
    text = "\f".join(
        "\n".join(pages[n - 1]).format(n=n, big=2045 + n, date=f"{n} May 20{n + 10}")
        for n in range(1, len(pages) + 1)
    )
    kept = Counter(
        word
        for block in line_blocks(text)
        for line in block
        for word in text[line.start : line.end].split()
    )
    written = Counter(text.split())
    numbers = set(map(str, range(1, len(pages) + 1)))
    assert {word for word in written if written[word] == 1} <= set(kept) | numbers
    assert written["Invoice"] == kept["Invoice"]
    assert written["May"] == kept["May"]
    assert written["Chapter"] == kept["Chapter"]


def test_a_list_of_contents_whose_words_stand_nowhere_else_stays():
    text = "Contents\n\n1. Pump\n2. Hose\n3. Filter\n\nKeep the box.\n"
    assert [one.text for one in Document.from_text(text).sentences()][-4:] == [
        *("1. Pump", "2. Hose", "3. Filter"),
        "Keep the box.",
    ]


def test_manual_pages():
    text = (
        "LS(1)                User Commands                LS(1)\n\n"
        "NAME\n       ls - list what a directory contains, one entry a line\n\n"
        "DESCRIPTION\n       List information about the files, which are speci‐\n"
        "       fied by name.\n\n"
        "   Exit status\n       It is 0 if everything went well, and 1 if it did not.\n"
    )
    document = Document.from_text(text)
    assert document.title == "LS(1)"
    assert [" > ".join(path) for path, _ in document.walk()] == [
        "NAME",
        "DESCRIPTION",
    ]
    assert "which are specified by name." in [one.text for one in document.sentences()][1]


def test_headings_less_indented_than_the_text():
    body = "   This is a paragraph of text that is indented by some columns.\n"
    text = f"Closing reports\n\n{body}\nFollowing up\n\n{body}\nNot this one.\n\n{body}"
    assert headings(text) == ["Closing reports", "Following up"]


def test_code_keeps_its_lines():
    text = (
        "To install it, run these commands in a terminal of your choice:\n\n"
        "    $ apt-get update\n    $ apt-get install foveate\n\n"
        "Then write a program, which may be as short as this one is:\n\n"
        "    for word in words:\n        print(word)\n    x = {1: 2}\n"
    )
    assert [found for found in paragraphs(text) if found[0] == "code"] == [
        ("code", ["    $ apt-get update\n    $ apt-get install foveate"]),
        ("code", ["    for word in words:\n        print(word)\n    x = {1: 2}"]),
    ]


GRAPH = """\
         o---B2
        /
---o---o---B1--o---o---o---B (origin)
        \\
         B0"""


@pytest.mark.parametrize(
    ("format", "written"),
    [
        ("text", "{}"),
        ("markdown", "```\n{}\n```"),
        ("html", "<pre>{}</pre>"),
        (
            "html",
            "<pre>Sentences.\n\n{}\n\nThe wheel turns while the water of the river is high\n"
            "and rests in summer, when the mill is closed and its owner paints.</pre>",
        ),
        ("rst", "A graph::\n\n{}"),
        ("latex", "\\section{{Graph}}\n\\begin{{verbatim}}\n{}\n\\end{{verbatim}}"),
    ],
)
def test_a_graph_of_branches_keeps_its_shape(format, written):
    graph = GRAPH if format != "rst" else textwrap.indent(GRAPH, "    ")
    text = f"The graph follows.\n\n{written.format(graph)}\n\nThat was the graph.\n"
    document = Document.from_text(text, format=format)
    [code] = [one for one in document.paragraphs() if one.kind == "code"]
    assert [one.text for one in code.sentences] == [GRAPH]


def test_a_graph_that_begins_like_a_list_keeps_its_shape():
    text = "It began so:\n\n    *   one\n   / \\\n  *   * two\n\nThat was all.\n"
    assert ("code", ["    *   one\n   / \\\n  *   * two"]) in paragraphs(text)


def test_a_long_listing_is_cut_at_ends_of_lines():
    text = "Run:\n\n```\n" + "    mill --turn\n" * 200 + "```\n"
    sentences = [one.text for one in Document.from_text(text, format="markdown").sentences()][1:]
    assert sum(sentence.count("\n") + 1 for sentence in sentences) == 200
    assert all(len(sentence) <= 1000 for sentence in sentences)
    assert all(sentence.startswith("    mill") for sentence in sentences)


def test_records_are_cut_by_line():
    lines = ["Name: Ann Lee", "Address: 3 Long Street, Edinburgh", "Phone: 123", "Pets: a dog"]
    assert [sentences for _, sentences in paragraphs("\n".join(lines))] == [
        [line] for line in lines
    ]


def wrapped(*paragraphs):
    return "\n".join(textwrap.fill(paragraph, 60) for paragraph in paragraphs)


FISH = (
    "The cod is a fish of the northern seas, which people have caught for a thousand years. It "
    "lives in large shoals near the ground and eats smaller fish, worms and crabs. Its young drift "
    "with the currents until they are as long as a finger, and then look for shelter in the weed."
)


@pytest.mark.parametrize(
    ("titles", "expected"),
    [
        (
            ["ABSTRACT", "General Terms", "1. INTRODUCTION", "2. Methods", "2.1 Nets", "3. Ends"],
            [
                "ABSTRACT",
                "General Terms",
                "1. INTRODUCTION",
                "2. Methods",
                "2. Methods > 2.1 Nets",
                "3. Ends",
            ],
        ),
        (
            ["Abstract", "Introduction", "RELATED WORK"],
            ["Abstract", "Introduction", "RELATED WORK"],
        ),
    ],
    ids=["numbered", "unnumbered"],
)
def test_text_without_blank_lines(titles, expected):
    body = [FISH, FISH.replace("cod", "eel")]
    text = wrapped("On Cod and Eel", "Ann Lee, Bob Ray", "University of Leeds")
    for title in titles:
        text += "\n" + wrapped(title, *body)
    text += "\nReferences\n[1] A. Lee. Reading. 2020.\n[2] B. Ode. Writing. In: Books.\n2021."
    document = Document.from_text(text)
    assert document.title == "On Cod and Eel"
    assert headings(text) == ["", *expected, "References"]
    found = paragraphs(text)
    assert [sentences for _, sentences in found[:2]] == [
        ["Ann Lee, Bob Ray"],
        ["University of Leeds"],
    ]
    assert [" ".join(sentences) for _, sentences in found[2:-1]] == body * len(titles)
    assert {kind for kind, _ in found[:-1]} == {"prose"}
    assert found[-1] == (
        "reference",
        ["[1] A. Lee. Reading. 2020.", "[2] B. Ode. Writing. In: Books. 2021."],
    )
    for sentence in document.sentences():
        assert " ".join(text[sentence.start : sentence.end].split()) == sentence.text


@pytest.mark.parametrize("name", ["References", "Literaturverzeichnis", "Bibliografía"])
def test_entries_of_a_bibliography_without_blank_lines_stay_whole(name):
    entries = ["[1] A. Lee. Reading. 2020.", "[2] B. Ode. Writing. In: Books.\n2021."]
    text = "\n".join([wrapped("Introduction", *[FISH] * 6), name, *entries])
    references = [part for part in paragraphs(text) if part[0] == "reference"]
    assert references == [("reference", [" ".join(entry.split()) for entry in entries])]


@pytest.mark.parametrize("line", ["It is clear that", "We fortify", "The young of", "IT IS CLEAR"])
def test_only_clauses_in_capitals_are_headings_of_text_without_blank_lines(line):
    body = [FISH] * 4
    text = wrapped("On Cod", "Abstract", *body, line, *body, "References", *body)
    assert headings(text) == ["Abstract", *([line] if line.isupper() else []), "References"]


def test_a_long_line_among_wrapped_ones_does_not_make_them_records():
    lines = wrapped(*[FISH.replace("finger,", "finger")] * 3).split("\n")
    lines[3] += " and in the kelp near the coast of the northern isles"
    found = paragraphs("On Cod\n\n" + "\n".join(lines) + "\n\nThe end.")
    assert [len(sentences) for _, sentences in found] == [1, 9, 1]


def test_lines_that_are_paragraphs():
    body = [FISH, FISH.replace("cod", "eel") + " It tastes good.", FISH + " " + FISH]
    text = "Acknowledgements\n" + "\n".join(body) + "\nAbstract\n" + "\n".join(body)
    text += "\n1. Nets\n2. Rods\n"
    assert headings(text) == ["Acknowledgements", "Abstract"]
    assert [" ".join(sentences) for _, sentences in paragraphs(text)] == [
        *body,
        *body,
        "1. Nets",
        "2. Rods",
    ]


def test_names_with_letters_after_them_are_not_in_capitals():
    assert headings("出席：\n\n曾鈺成議員, G.B.S., J.P.\n\n何俊仁\n\n陳鑑林, S.B.S.") == [""]


def test_drawn_tables_become_rows():
    text = (
        "+---------+-----------+\n| Item    | Price     |\n|---------+-----------|\n"
        "| Support | 450 euros |\n| of all  | a month   |\n|---------+-----------|\n"
        "| Meals   | 30 euros  |\n+---------+-----------+\n"
    )
    assert paragraphs(text) == [
        (
            "table",
            ["Item: Support of all; Price: 450 euros a month", "Item: Meals; Price: 30 euros"],
        )
    ]


def test_references_footnotes_and_captions():
    text = (
        "1 Introduction\n\nIt is known [1].\n\n[1] A footnote here.\n\nTable 1. Some numbers\n\n"
        "2 Results\n\nThey are good.\n\nReferences\n\n"
        "[1] A. Lee. Reading. 2020.\n[2] B. Ode. Writing. In: Books.\n    2021."
    )
    assert paragraphs(text) == [
        ("prose", ["It is known [1]."]),
        ("footnote", ["[1] A footnote here."]),
        ("caption", ["Table 1. Some numbers"]),
        ("prose", ["They are good."]),
        ("reference", ["[1] A. Lee. Reading. 2020.", "[2] B. Ode. Writing. In: Books. 2021."]),
    ]


def test_lines_of_chinese_are_joined_without_a_space():
    (sentence,) = Document.from_text("这是一个很\n长的句子。").sentences()
    assert (sentence.text, sentence.start, sentence.end) == ("这是一个很长的句子。", 0, 11)


def test_many_headings_that_occur_twice_are_fast():
    titles = "".join(f"CHAPTER {number % 900}. Foo {number}\n\n" for number in range(5_000))
    assert Document.from_text(f"{titles}{titles}The end.").sections
