"""PDF, read with PDFium."""

import sys
import threading
from itertools import pairwise
from random import Random
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from reportlab.pdfbase.pdfmetrics import stringWidth

from foveate.documents import Document, DocumentError
from foveate.documents.readers.pdf import furniture, read
from foveate.documents.readers.pdf.extraction import Characters, Font, Page
from foveate.documents.readers.pdf.models import from_docling
from foveate.documents.readers.pdf.scans import parse_table
from foveate.documents.readers.pdf.words import read_words
from tests.documents.pdfs import HEIGHT, LOREM, PITCH, WIDTH, Writer, letter


def document_of(data, **options):
    return Document.from_bytes(data, source="paper.pdf", **options)


def kinds(document):
    return [
        (paragraph.kind, [sentence.text for sentence in paragraph.sentences])
        for paragraph in document.paragraphs()
    ]


def texts(document, kind):
    return [text for found, sentences in kinds(document) if found == kind for text in sentences]


def check_places(document):
    """Sentences are sorted, and their boxes hold them and lie on their pages."""
    spans = document.spans()
    assert all(one.end <= other.start for one, other in pairwise(spans))
    sizes = document.layout.page_sizes.tolist()
    for span in spans:
        assert "".join(document.text[span.start : span.end].split()) == "".join(span.text.split())
        assert span.boxes
        assert span.page == span.boxes[0].page
        for box in span.boxes:
            width, height = sizes[box.page - 1]
            assert -5 <= box.left < box.right <= width + 5
            assert -5 <= box.top < box.bottom <= height + 5


def two_columns(writer, left, right, y=100):
    """Fill two columns with text."""
    writer.column(54, y, 240, left, last=False)
    writer.column(318, y, 240, right, last=False)


def paper():
    """Two pages in two columns, with everything a paper has around its text."""
    writer = Writer()
    writer.center(80, "Dredging the Harbour of Ys", size=18)
    writer.center(105, "Ann Lee and Bob Roe", font="Times-Roman", size=12)
    writer.center(120, "University of Ys", font="Times-Italic")
    writer.text(54, 160, "Abstract", "Times-Bold", 12)
    y = writer.column(54, 178, 240, "Left one. " + LOREM * 3)
    writer.text(54, y + 12, "1 Introduction", "Times-Bold", 12)
    y = writer.column(54, y + 30, 240, "Left two. " + LOREM * 3)
    writer.column(54, y, 240, "The measured depth of the chan-")
    writer.column(318, 160, 240, "nel is small. Right one. " + LOREM * 4)
    writer.text(318, 690, "1", "Times-Roman", 6)
    writer.text(322, 694, "A footnote about pilots.", "Times-Roman", 8)
    writer.page()
    writer.center(740, "2", font="Times-Roman")
    writer.text(54, 80, "2 Results", "Times-Bold", 12)
    two_columns(writer, "Third column. " + LOREM * 5, "Fourth column. " + LOREM * 5)
    writer.page()
    return writer.bytes()


class TestReadingOrder:
    def test_columns_are_read_one_after_the_other(self):
        document = document_of(paper())
        shown = " ".join(sentence.text for sentence in document.sentences())
        order = ["Left one.", "Left two.", "Right one.", "Third column.", "Fourth column."]
        places = [shown.index(words) for words in order]
        assert places == sorted(places)
        assert shown.count(LOREM.split(". ")[0]) == 20
        check_places(document)

    def test_words_torn_by_columns_are_joined(self):
        document = document_of(paper())
        assert "The measured depth of the channel is small." in [
            sentence.text for sentence in document.sentences()
        ]

    def test_what_spans_columns_parts_them(self):
        writer = Writer()
        two_columns(writer, "Above left. " + LOREM * 2, "Above right. " + LOREM * 2)
        writer.column(54, 330, 504, "Figure 1: A caption over the whole width of the page. " * 2)
        two_columns(writer, "Below left. " + LOREM * 2, "Below right. " + LOREM * 2, y=400)
        writer.page()
        shown = document_of(writer.bytes()).text
        order = ["Above left", "Above right", "Figure 1", "Below left", "Below right"]
        assert sorted(order, key=shown.index) == order

    def test_three_columns(self):
        writer = Writer()
        for number, word in enumerate(["First", "Second", "Third"]):
            writer.column(54 + number * 174, 100, 156, f"{word} column. " + LOREM * 3, last=False)
        writer.page()
        shown = document_of(writer.bytes()).text
        assert shown.index("First") < shown.index("Second") < shown.index("Third")
        assert "ice reached the outer piers" in " ".join(shown.split())

    def test_turned_pages_and_watermarks(self):
        writer = Writer()
        writer.column(72, 100, 400, LOREM)
        writer.canvas.saveState()
        writer.canvas.rotate(60)
        writer.text(300, 500, "DRAFT", size=60)
        writer.canvas.restoreState()
        writer.page()
        writer.canvas.translate(WIDTH, 0)
        writer.canvas.rotate(90)
        writer.text(100, 600, "This table is turned by a quarter.")
        writer.page()
        document = document_of(writer.bytes())
        assert "DRAFT" not in document.text
        assert "This table is turned by a quarter." in document.text
        check_places(document)
        box = document.spans()[-1].boxes[0]
        assert box.bottom - box.top > 3 * (box.right - box.left)

    def test_line_numbers_of_manuscripts_are_left_out(self):
        writer = Writer()
        for number in range(1, 31):
            writer.text(40, 90 + number * PITCH, str(number), size=8)
            writer.text(72, 90 + number * PITCH, "The ice reached the outer piers and the pilots")
        writer.page()
        assert not any(character.isdigit() for character in document_of(writer.bytes()).text)


class TestFurniture:
    @pytest.fixture
    def book(self):
        writer = Writer()
        for number in range(1, 9):
            if number % 2:
                writer.text(72, 40, f"{number}   A HISTORY OF PILOTS", size=9)
            else:
                writer.text(400, 40, f"THE SECOND CHAPTER   {number}", size=9)
            writer.center(760, "Printed in Ys, 1893", font="Times-Italic", size=8)
            writer.column(72, 80, 440, f"Page {number} begins. " + LOREM * 9)
            writer.page()
        return document_of(writer.bytes())

    def test_running_heads_are_left_out(self, book):
        assert "HISTORY" not in book.text
        assert "SECOND CHAPTER" not in book.text
        assert "1893" not in book.text

    def test_text_stays(self, book):
        assert [f"Page {n} begins." in book.text for n in range(1, 9)] == [True] * 8
        assert book.text.count("The harbour was closed") == 72

    def test_page_numbers_are_left_out(self):
        writer = Writer()
        for number in range(1, 6):
            writer.column(72, 80, 440, LOREM * (number + 2))
            writer.center(750, f"- {number + 10} -", font="Times-Roman")
            writer.page()
        document = document_of(writer.bytes())
        assert not any(str(number + 10) in document.text for number in range(1, 6))

    def test_two_pages_alike_keep_their_text(self):
        writer = Writer()
        for number in (1, 2):
            writer.column(72, 80, 440, f"Letter {number}. " + LOREM * 2)
            writer.page()
        assert document_of(writer.bytes()).text.count("The harbour was closed") == 4


class TestHeadings:
    def test_title_and_headings_by_their_looks(self):
        document = document_of(paper())
        assert document.title == "Dredging the Harbour of Ys"
        assert [section.title for section in document.sections] == [
            "",
            "Abstract",
            "1 Introduction",
            "2 Results",
        ]
        assert kinds(document)[0] == ("prose", ["Ann Lee and Bob Roe"])

    def test_outline_names_headings_and_levels(self):
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

    def test_numbering_gives_levels(self):
        writer = Writer()
        y = 80
        for title in ["1 Ships", "1.1 Masts", "1.2 Sails", "2 Harbours"]:
            writer.text(72, y, title, "Times-Bold", 12)
            y = writer.column(72, y + 20, 440, LOREM) + 20
        writer.page()
        sections = document_of(writer.bytes()).sections
        assert [section.title for section in sections] == ["1 Ships", "2 Harbours"]
        assert [s.title for s in sections[0].sections] == ["1.1 Masts", "1.2 Sails"]

    def test_comments_of_listings_are_no_headings(self):
        writer = Writer()
        y = writer.column(72, 100, 440, LOREM * 2)
        for line in ["# Install", "apt install foo", "", "# 1 Remove", "    apt remove foo"]:
            writer.text(72, y + 10, line, "Courier-Bold", 9)
            y += PITCH
        writer.column(72, y + 20, 440, LOREM * 2)
        writer.page()
        document = document_of(writer.bytes())
        assert [section.title for section in document.sections] == [""]
        assert texts(document, "code") == [
            "# Install",
            "apt install foo",
            "# 1 Remove",
            "apt remove foo",
        ]
        assert "\n    apt remove foo" in document.text

    def test_title_of_the_metadata(self):
        writer = Writer()
        writer.canvas.setTitle("A History of Pilots")
        writer.column(72, 100, 440, LOREM)
        writer.page()
        assert document_of(writer.bytes()).title == "A History of Pilots"

    @pytest.mark.parametrize(
        ("label", "size"),
        [
            *(("Technical Report No. 12", 20), ("WORKING PAPER SERIES", 20), ("TR-2004-12", 16)),
            *(("Master’s Thesis", 20), ("University of Ys", 20), ("Journal of Pilots", 20)),
        ],
    )
    def test_series_and_kinds_are_no_titles(self, label, size):
        writer = Writer()
        writer.center(60, label, size=size)
        writer.center(110, "Dredging the Harbour of Ys", size=16)
        writer.center(135, "Ann Lee", "Times-Roman", size=12)
        writer.column(72, 170, 440, LOREM * 2)
        writer.page()
        document = document_of(writer.bytes())
        assert document.title == "Dredging the Harbour of Ys"
        assert label in document.text

    def test_a_title_no_larger_than_the_text_below_a_number(self):
        writer = Writer()
        writer.center(60, "YSCON2023-XXXX", size=16)
        writer.center(110, "DREDGING THE HARBOUR OF YS")
        writer.column(72, 170, 440, LOREM * 2)
        writer.page()
        assert document_of(writer.bytes()).title == "DREDGING THE HARBOUR OF YS"

    @pytest.mark.parametrize("title", ["Journal of Pilots", "University of Ys: Crest and Logos"])
    def test_a_series_is_the_title_if_there_is_no_other(self, title):
        writer = Writer()
        writer.center(60, title, size=20)
        writer.column(72, 170, 440, LOREM * 2)
        writer.page()
        assert document_of(writer.bytes()).title == title

    def test_a_journal_is_the_title_of_its_cover(self):
        writer = Writer()
        writer.center(60, "Proceedings of the Council of Pilots", size=24)
        writer.center(110, "Ann Lee and Bob Roe", size=16)
        writer.center(135, "Ys, in the year of the ice", size=10)
        writer.page()
        writer.column(72, 170, 440, LOREM * 2)
        writer.page()
        assert document_of(writer.bytes()).title == "Proceedings of the Council of Pilots"

    def test_theorems_and_their_items_are_no_headings(self):
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

    def test_names_of_files_are_no_titles(self):
        writer = Writer()
        writer.canvas.setTitle("Microsoft Word - pilots.doc")
        writer.column(72, 100, 440, LOREM)
        writer.page()
        assert document_of(writer.bytes()).title == ""

    def test_contents_are_left_out(self):
        writer = Writer()
        writer.text(72, 80, "Contents", "Times-Bold", 14)
        for number in range(1, 9):
            writer.text(
                72, 100 + number * PITCH, f"{number} Chapter on pilots . . . . . . {number}"
            )
        writer.page()
        writer.text(72, 80, "1 Pilots", "Times-Bold", 14)
        writer.column(72, 100, 440, LOREM * 3)
        writer.page()
        document = document_of(writer.bytes())
        assert [section.title for section in document.sections] == ["1 Pilots"]
        assert ". . ." not in document.text

    def run_in(self, mark, heading):
        """A section with a paragraph that begins with its heading."""
        writer = Writer(initialFontName="Times-Roman")
        writer.text(72, 80, "1 Ships", "Times-Bold", 12)
        y = writer.column(72, 100, 440, LOREM) + 6
        title = f"{mark}{heading}: "
        writer.text(72, y, title, "Times-Italic")
        writer.text(72 + stringWidth(title, "Times-Italic", 10), y, "They are made of oak and tar.")
        return writer, y

    @pytest.mark.parametrize("mark", ["1) ", "a) "])
    def test_headings_run_in(self, mark):
        writer, _ = self.run_in(mark, "Masts of ships")
        writer.page()
        section = document_of(writer.bytes()).sections[0]
        assert [inner.title for inner in section.sections] == [mark + "Masts of ships"]
        sentences = section.sections[0].paragraphs[0].sentences
        assert [sentence.text for sentence in sentences] == ["They are made of oak and tar."]

    def test_only_marks_or_the_outline_tell_headings_run_in(self):
        writer, y = self.run_in("", "Masts of ships")
        writer.page()
        assert document_of(writer.bytes()).sections[0].sections == ()
        writer, y = self.run_in("", "Masts of ships")
        writer.bookmark("Ships", 0, 80)
        writer.bookmark("Masts of ships", 1, y)
        writer.page()
        section = document_of(writer.bytes()).sections[0]
        assert [inner.title for inner in section.sections] == ["Masts of ships"]

    @staticmethod
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

    def test_sections_of_statutes_are_in_parts(self):
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

    def test_pleadings_have_headings_on_their_first_page(self):
        text = "The harbour was closed in winter because the ice reached the outer piers. " * 2
        document = self.centred(
            "John Roe, Plaintiff, v. Acme Corporation, Defendant",
            "JURISDICTION#",
            "1. " + text,
            "FIRST CAUSE OF ACTION\n(Breach of Contract)#",
            "2. " + text,
            "PRAYER FOR RELIEF#",
            "3. " + text,
        )
        assert [section.title for section in document.sections if section.title] == [
            "JURISDICTION",
            "FIRST CAUSE OF ACTION (Breach of Contract)",
            "PRAYER FOR RELIEF",
        ]

    def test_recitals_are_headed(self):
        document = self.centred(
            "This agreement is between Ann Lee and Bob Roe.",
            "RECITALS#",
            "The harbour was closed.",
            "TERMS#",
            LOREM * 2,
        )
        assert [section.title for section in document.sections] == ["", "RECITALS", "TERMS"]

    def test_headings_as_wide_as_their_column(self):
        writer = Writer()
        writer.column(54, 60, 240, LOREM * 2)
        title = "2 Of ships, pilots and harbours, and ice in them"
        size = 10 * 239 / stringWidth(title, "Times-Bold", 10)
        writer.text(54, 300, title, "Times-Bold", size)
        writer.column(54, 314, 240, LOREM * 2, last=False)
        writer.column(318, 60, 240, LOREM * 4)
        writer.page()
        assert [section.title for section in document_of(writer.bytes()).sections] == ["", title]


class TestParagraphs:
    def test_names_with_several_hyphens(self):
        document = document_of(letter("The pilots have out-", "of-date charts of the harbour."))
        assert "out-of-date charts" in document.text

    def test_web_addresses_at_line_ends(self):
        document = document_of(
            letter("See https://pilots.example/chart", "s/1890/ys.html for the charts of Ys.")
        )
        assert "https://pilots.example/charts/1890/ys.html for" in document.text

    def test_items_that_begin_with_code(self):
        writer = Writer()
        y = writer.column(72, 100, 440, LOREM) + 6
        for name, rest in [("open(path,", ""), ("close()", "closes the file.")]:
            writer.text(82, y, "•")
            writer.text(92, y, name, "Courier")
            writer.text(97 + stringWidth(name, "Courier", 10), y, rest)
            y += PITCH
        writer.page()
        items = texts(document_of(writer.bytes()), "item")
        assert items == ["open(path,", "close() closes the file."]

    def test_stretched_lines_are_no_table(self):
        writer = Writer()
        y = writer.column(72, 100, 240, LOREM) + 6
        for words in ["wholesale removal of", "harbour regulations in", "northern countries which"]:
            room = 240 - stringWidth(words, "Times-Roman", 10)
            writer.canvas.setFont("Times-Roman", 10)
            writer.canvas.drawString(72, HEIGHT - y, words, wordSpace=room / 2)
            y += PITCH
        writer.text(72, y, "failed.")
        writer.page()
        document = document_of(writer.bytes())
        assert not texts(document, "table")
        assert "wholesale removal of harbour regulations in northern" in document.text

    def test_no_space_is_left_where_the_mark_of_a_footnote_stood(self):
        writer = Writer()
        y = writer.column(72, 100, 440, LOREM * 2)
        start = "The pilots measured the channel of the harbour"
        writer.text(72, y, start)
        line = writer.canvas.beginText(72, HEIGHT - y)
        for words, size, rise in [(start, 10, 0), ("1", 7, 3), (".", 10, 0)]:
            line.setFont("Times-Roman", size)
            line.setRise(rise)
            line.textOut(words)
        writer.canvas.drawText(line)
        writer.text(72, 720, "1", size=5)
        writer.text(78, 722, "It is the channel of Ys, in the north.", size=8)
        writer.page()
        assert "channel of the harbour." in document_of(writer.bytes()).text

    def test_hyphens_at_line_ends(self):
        document = document_of(
            letter(
                "The well-known pilots meas-",
                "ured the deep channel at noon. A third-",
                "party report and the well-",
                "known council of the East-",
                "West company agreed in 1890-",
                "1893 with the depart-",
                "ment of canals.",
            )
        )
        assert [sentence.text for sentence in document.sentences()] == [
            "The well-known pilots measured the deep channel at noon.",
            "A third-party report and the well-known council of the East-West company agreed in "
            "1890-1893 with the department of canals.",
        ]

    def test_german_compounds(self):
        document = document_of(
            letter(
                "Die Lotsen haben in diesem Jahr die Tiefe der Fahrrinne gemessen und den Wasser-",
                "stand aufgeschrieben. Die Ein- und Ausfahrt der Schiffe ist im Winter ge-",
                "sperrt, weil das Eis die Hafenmauer erreicht hat und die Ein-",
                "und Ausgabe der Karten ruht.",
            )
        )
        assert "Wasserstand" in document.text
        assert "gesperrt" in document.text
        assert "Ein- und Ausgabe" in document.text

    def test_paragraphs_by_indentation(self):
        writer = Writer()
        y = writer.column(72, 100, 300, "One begins. " + LOREM)
        y = writer.column(72, y, 300, "Two begins. " + LOREM, indent=5)
        writer.column(72, y, 300, "Three begins. " + LOREM, indent=5)
        writer.page()
        paragraphs = [sentences[0] for _, sentences in kinds(document_of(writer.bytes()))]
        assert paragraphs == ["One begins.", "Two begins.", "Three begins."]

    def test_items(self):
        writer = Writer()
        y = writer.column(72, 100, 440, "There are three: " + LOREM)
        for number, item in enumerate(["pilots of the harbour,", "ships;", "canals."]):
            writer.text(80, y + 4, "\u2022" if number < 2 else "-")
            writer.text(92, y + 4, item)
            y += PITCH
        writer.page()
        document = document_of(writer.bytes())
        assert texts(document, "item") == ["pilots of the harbour,", "ships;", "canals."]

    def test_footnotes_are_apart_and_their_marks_left_out(self):
        writer = Writer()
        y = writer.column(72, 100, 440, LOREM * 3)
        writer.text(72, y, "Pilots swim")
        writer.text(119, y - 4, "1", size=6)
        writer.text(123, y, "in the cold sea and do not")
        writer.text(72, 700, "1", size=6)
        writer.text(76, 704, "Not all of them.", size=8)
        writer.page()
        writer.text(72, 100, "complain. " + "Then they rest.")
        writer.page()
        document = document_of(writer.bytes())
        assert texts(document, "footnote") == ["Not all of them."]
        assert "Pilots swim in the cold sea and do not complain." in texts(document, "prose")

    def test_captions(self):
        writer = Writer()
        y = writer.column(72, 100, 440, LOREM)
        writer.text(72, y + 150, "Figure 3: The channel in spring.", size=9)
        writer.column(72, y + 180, 440, LOREM)
        writer.page()
        document = document_of(writer.bytes())
        assert texts(document, "caption") == ["Figure 3: The channel in spring."]

    def test_references(self):
        writer = Writer()
        y = writer.column(72, 100, 440, LOREM)
        writer.text(72, y + 20, "References", "Times-Bold", 12)
        y += 40
        for number in (1, 2):
            for line in [f"[{number}] A. Lee. On pilots. Journal of", "Canals, 3(1), 1893."]:
                writer.text(72 if line.startswith("[") else 86, y, line)
                y += PITCH
        writer.page()
        document = document_of(writer.bytes())
        assert texts(document, "reference") == [
            "[1] A. Lee. On pilots. Journal of Canals, 3(1), 1893.",
            "[2] A. Lee. On pilots. Journal of Canals, 3(1), 1893.",
        ]

    def test_formulas_do_not_end_sentences(self):
        writer = Writer()
        y = writer.column(72, 100, 440, LOREM * 2 + "The depth is given by", last=True)
        writer.center(y + 10, "d = (a + b) / c - 2 = 0", font="Times-Italic")
        writer.column(72, y + 34, 440, "where c is the speed of the ice. " + LOREM)
        writer.page()
        document = document_of(writer.bytes())
        assert "The depth is given by where c is the speed of the ice." in texts(document, "prose")
        assert texts(document, "formula") == ["d = (a + b) / c - 2 = 0"]


class TestTables:
    def test_rows_have_their_heads(self):
        writer = Writer()
        y = writer.column(72, 100, 440, LOREM)
        rows = [("Item", "Price", "Stock"), ("Support", "450", "12"), ("Rope", "3", "200")]
        rows.append(("Tar", "17", "41"))
        for number, row in enumerate(rows):
            for x, cell in zip((90, 220, 330), row, strict=True):
                writer.text(x, y + 20, cell, "Times-Roman" if number else "Times-Bold")
            y += 14
        writer.column(72, y + 40, 440, LOREM)
        writer.page()
        document = document_of(writer.bytes())
        assert texts(document, "table") == [
            "Item: Support; Price: 450; Stock: 12",
            "Item: Rope; Price: 3; Stock: 200",
            "Item: Tar; Price: 17; Stock: 41",
        ]
        check_places(document)


class TestCharacters:
    def test_quotes_and_dashes(self):
        words = "The pilot\u2019s \u201cwork\u201d is hard \u2014 often."
        assert document_of(letter(words)).text == words

    @pytest.mark.parametrize(
        ("codes", "word"),
        [
            ([0x64, 0x69, 0xFB03, 0x63], "diffic"),
            ([0x64, 0x69, 0x0E, 0x63], "diffic"),  # as TeX encodes it
            ([0x61, 0xF0B7, 0xE123, 0xFFFD], "a\u2022"),
            ([0x61, 0x2010, 0x62], "a-b"),
        ],
    )
    def test_broken_encodings_are_mended(self, codes, word):
        count = len(codes)
        lefts = np.arange(count, dtype=np.float32) * 5
        boxes = np.stack([lefts, lefts * 0, lefts + 5, lefts * 0 + 10], axis=1)
        flags = np.zeros(count, np.bool_)
        characters = Characters(
            np.array(codes, np.uint32),
            boxes,
            boxes[:, [0, 3]],
            np.full(count, 10, np.float32),
            np.tile(np.array([[1, 0]], np.float32), (count, 1)),
            np.zeros(count, np.int16),
            flags,
            flags,
        )
        page = Page(1, 612, 792, characters, [Font(False, False, False, False)], boxes[:0], False)
        assert read_words(page).texts == [word]

    def test_accents_drawn_over_letters(self):
        writer = Writer()
        writer.text(72, 100, "The caf")
        writer.text(103, 100, "e")
        writer.text(103.4, 100, "\u00b4")
        writer.text(110, 100, "is open to all pilots.")
        writer.page()
        assert document_of(writer.bytes()).text == "The café is open to all pilots."


class TestFailures:
    def test_damaged(self):
        content = paper()
        random = Random(7)
        for _ in range(60):
            damaged = bytearray(content[: random.randrange(len(content))])
            for _ in range(random.randrange(20)):
                if damaged:
                    damaged[random.randrange(len(damaged))] = random.randrange(256)
            try:
                check_places(document_of(bytes(damaged), format="pdf"))
            except DocumentError as error:
                assert str(error).startswith("paper.pdf ")  # noqa: PT017

    def test_encrypted(self):
        writer = Writer(encrypt="secret")
        writer.text(72, 100, "Hidden.")
        writer.page()
        with pytest.raises(DocumentError, match=r"paper\.pdf is protected by a password: remove"):
            document_of(writer.bytes())

    def test_empty(self):
        with pytest.raises(DocumentError, match=r"paper\.pdf has no text: its pages are empty"):
            document_of(letter())

    def test_unknown_engine(self):
        with pytest.raises(DocumentError, match="use 'pdfium' or 'docling'"):
            document_of(letter("Words."), engine="acrobat")

    def test_threads(self):
        content = paper()
        found = []
        threads = [
            threading.Thread(target=lambda: found.append(read(content).text)) for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found == [read(content).text] * 4


def scan(words):
    """A page that is a picture of words."""
    from PIL import Image, ImageDraw, ImageFont
    from reportlab.lib.utils import ImageReader

    picture = Image.new("L", (1275, 1650), 255)
    draw = ImageDraw.Draw(picture)
    draw.text((150, 200), words, fill=0, font=ImageFont.load_default(36))
    writer = Writer()
    writer.canvas.drawImage(ImageReader(picture), 0, 0, WIDTH, HEIGHT)
    return writer


def contract():
    """Pages without heads that begin with a short line, after contents without leaders."""
    writer = Writer()
    writer.center(100, "CONTENTS")
    for number, entry in enumerate(("1. Term", "2. Fees", "3. Duties", "Schedule 1"), 2):
        writer.text(72, 92 + 18 * number, entry)
        writer.text(500, 92 + 18 * number, str(number))
    writer.page()
    starts = ("(c) keep the keys;", "The rest follows.", "2. The fee is due.", "Schedule 1")
    for number, start in enumerate(starts, 2):
        y = writer.column(72, 100, 450, start, "Times-Bold" if "Sch" in start else "Times-Roman")
        for _ in range(6):
            y = writer.column(72, y + 8, 450, LOREM)
        writer.text(72, 770, f"Page {number} of 5", size=8)
        writer.page()
    return writer.bytes()


def test_the_first_lines_of_pages_without_heads_are_read():
    document = document_of(contract())
    firsts = [sentence.text for sentence in document.sentences()]
    assert {"(c) keep the keys;", "The rest follows.", "2. The fee is due."} <= set(firsts)
    assert [section.title for section in document.sections][-1] == "Schedule 1"


def test_contents_without_leaders_are_left_out():
    assert "Fees" not in document_of(contract()).text
    assert "CONTENTS" not in document_of(contract()).text


def test_items_that_are_joined_by_or():
    writer = Writer()
    y = writer.column(72, 100, 300, "Either of them may end this agreement at once if the other:")
    breach = "(a) commits a breach that is not mended within thirty (30) days of notice; or"
    y = writer.column(72, y, stringWidth(breach, "Times-Roman", 10) + 5, breach)
    writer.column(72, y, 300, "(B) ceases to carry on business.")
    assert texts(document_of(writer.bytes()), "item") == [
        breach,
        "(B) ceases to carry on business.",
    ]


def front_page(author):
    """A paper whose authors are side by side, above its columns, in large type."""
    writer = Writer()
    writer.canvas.setAuthor(author)
    writer.center(80, "Dredging the Harbour of Ys", size=18)
    for x, name in ((60, "Ann Lee"), (324, "Bob Roe")):
        writer.text(x, 115, name, size=12)
        writer.text(x, 130, "1", size=6)
        writer.text(x + 4, 133, "Department of Pilots, University of Ys", "Times-Bold")
    writer.text(54, 180, "Abstract", "Times-Bold", 12)
    writer.column(54, 198, 240, "Left. " + LOREM * 4 + "The measured depth of the chan-")
    writer.column(318, 180, 240, "nel is small. Right. " + LOREM * 4)
    writer.page()
    return document_of(writer.bytes())


def test_authors_side_by_side_are_before_the_text():
    document = front_page("")
    assert [section.title for section in document.sections] == ["", "Abstract"]
    front = " ".join(
        sentence.text for one in document.sections[0].paragraphs for sentence in one.sentences
    )
    assert front.index("Ann Lee") < front.index("Bob Roe")
    assert front.count("Department of Pilots") == 2
    assert "The measured depth of the channel is small." in texts(document, "prose")


def test_the_names_of_authors_are_no_headings():
    writer = Writer()
    writer.canvas.setAuthor("Ann Lee")
    writer.center(80, "Dredging the Harbour of Ys", size=18)
    writer.center(120, "Preface", size=14)
    writer.column(72, 150, 450, LOREM * 4)
    writer.text(72, 320, "Ann Lee", "Times-Bold", 14)
    writer.column(72, 345, 450, LOREM)
    writer.page()
    assert [one.title for one in document_of(writer.bytes()).sections] == ["Preface"]


@pytest.mark.parametrize(
    ("author", "expected"), [("jdoe", ()), ("Lee", ("Lee",)), ("Eve Fox", ("Eve Fox",))]
)
def test_a_user_of_a_computer_is_no_author(author, expected):
    assert front_page(author).authors == expected


def test_files_are_opened_again(monkeypatch):
    data = paper()
    whole = document_of(data)
    monkeypatch.setattr("foveate.documents.readers.pdf._BATCH", 1)
    assert document_of(data) == whole


class TestScans:
    def test_scans_among_pages_with_text_give_a_warning(self):
        writer = scan("Pilots measure the channel.")
        writer.page()
        writer.text(72, 100, "A page with text of its own.")
        writer.page()
        with pytest.warns(UserWarning, match="^1 of the 2 pages is a picture without text"):
            document = document_of(writer.bytes())
        assert [span.page for span in document.spans()] == [2]

    def test_they_say_so(self):
        writer = scan("Pilots measure the channel.")
        writer.page()
        with pytest.raises(
            DocumentError, match="its only page is a picture, as from a scanner; re"
        ):
            document_of(writer.bytes())

    def test_without_tesseract(self, monkeypatch):
        monkeypatch.setenv("PATH", "")
        writer = scan("Pilots measure the channel.")
        writer.page()
        with pytest.raises(DocumentError, match="needs the program tesseract: install it"):
            document_of(writer.bytes(), ocr=True)

    def test_tables_of_tesseract(self):
        names = "level page_num block_num par_num line_num word_num left top width height conf text"
        rows = [names.split()]
        words = [("Pilots", 100, 200, 1), ("measure.", 300, 200, 1), ("Slowly.", 100, 260, 2)]
        for word, left, top, line in words:
            rows.append([5, 1, 1, 1, line, 1, left, top, 150, 40, 96, word])
        table = "\n".join("\t".join(map(str, row)) for row in rows)
        lines = parse_table(table, page=3, scale=4.0)
        assert [line.text for line in lines] == ["Pilots measure.", "Slowly."]
        assert lines[0].boxes[1].tolist() == [75.0, 50.0, 112.5, 60.0]
        assert lines[0].page == 3
        assert lines[1].frame.right == 112.5

    def test_they_are_read(self):
        from shutil import which

        if which("tesseract") is None:
            pytest.skip("tesseract is not installed")
        writer = scan("Pilots measure the channel.")
        writer.page()
        writer.text(72, 100, "A page with text of its own.")
        writer.page()
        document = document_of(writer.bytes(), ocr=True)
        assert [sentence.text for sentence in document.sentences()] == [
            "Pilots measure the channel.",
            "A page with text of its own.",
        ]
        box = document.spans()[0].boxes[0]
        assert 60 < box.left < 90
        assert 90 < box.top < 120


class TestDocling:
    """The mapping of docling's documents, with a stand-in: its models cannot be had offline."""

    def test_mapping(self):
        def place(page, left, top, right, bottom, start=0):
            def to_top_left_origin(page_height):
                return SimpleNamespace(l=left, t=page_height - top, r=right, b=page_height - bottom)

            box = SimpleNamespace(to_top_left_origin=to_top_left_origin)
            return SimpleNamespace(page_no=page, bbox=box, charspan=(start, start + 5))

        def item(label, text, *places, **more):
            return SimpleNamespace(label=label, text=text, prov=list(places), **more), 1

        def row(*cells, head=False):
            return [SimpleNamespace(text=c, bbox=None, column_header=head) for c in cells]

        grid = [row("Item", "Price", head=True), row("Rope", "3")]
        table = SimpleNamespace(
            label="table", prov=[place(2, 10, 90, 50, 80)], data=SimpleNamespace(grid=grid)
        )
        size = SimpleNamespace(width=100.0, height=100.0)
        items = [
            item("page_header", "Journal of Canals", place(1, 10, 98, 50, 96)),
            item("title", "On Pilots", place(1, 10, 90, 50, 80)),
            item("section_header", "Ships", place(1, 10, 70, 50, 65), level=1),
            item("text", "They sail far.", place(1, 10, 60, 50, 50), place(2, 10, 99, 50, 95, 5)),
            (table, 1),
        ]
        parsed = from_docling(
            SimpleNamespace(
                iterate_items=lambda: items,
                pages={1: SimpleNamespace(size=size), 2: SimpleNamespace(size=size)},
            )
        )
        assert parsed.title == "On Pilots"
        assert [str(block.text) for block in parsed.blocks] == [
            "Ships",
            "They sail far.",
            "Item: Rope; Price: 3",
        ]
        start, end = parsed.blocks[1].text.source_span(0, len("They sail far."))
        assert parsed.text[start:end] == "They sail far."
        boxes = parsed.layout.locate([(start, end)])[0]
        assert [tuple(box) for box in boxes] == [(1, 10, 40, 50, 50), (2, 10, 1, 50, 5)]

    def test_it_needs_the_extra(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "docling.document_converter", None)
        monkeypatch.setitem(sys.modules, "docling.datamodel.base_models", None)
        with pytest.raises(ImportError, match=r"pip install 'foveate\[docling\]'"):
            document_of(letter("Words."), engine="docling")


@given(
    lines=st.lists(
        st.tuples(
            st.integers(0, 500),
            st.integers(20, HEIGHT - 10),
            st.sampled_from(["Words.", "Of the", "1 Ships", "\u2022 x", "3", "y = 2", "[1] Lee"]),
            st.sampled_from(["Times-Roman", "Times-Bold", "Courier"]),
            st.sampled_from([6, 10, 10, 18]),
        ),
        max_size=40,
    )
)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_page_has_its_places(lines):
    writer = Writer()
    for line in lines:
        writer.text(*line)
    writer.page()
    try:
        document = document_of(writer.bytes())
    except DocumentError:
        return
    check_places(document)


@pytest.mark.parametrize("letter", ["\u0130", "\u0131"])
def test_letters_of_turkish_are_no_page_numbers(letter):
    assert furniture._PAGE_NUMBER.search(f"Say{letter}") is None
    assert furniture._ONLY_NUMBER.match(letter) is None
