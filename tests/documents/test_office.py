"""The formats of Office and OpenDocument."""

import sys
import zipfile
from email.message import EmailMessage
from io import BytesIO
from itertools import groupby
from random import Random
from types import SimpleNamespace

import docx as python_docx
import pytest

from foveate.documents import Document, DocumentError
from foveate.documents.readers.office import number_formats
from tests.documents.fuzz_seeds import msg, odp, pack_zip, pptx, xlsx
from tests.documents.packages import OFFICE, PACKAGE, archive, docx, flat_odt, odt


def kinds(document):
    """The kind of each paragraph, the place of its beginning and its sentences."""
    spans = iter(document.spans())
    return [
        (paragraph.kind, place, [span.text for span in group])
        for paragraph in document.paragraphs()
        for located in [[next(spans) for _ in paragraph.sentences]]
        for place, group in groupby(located, lambda span: span.place)
    ]


def run(text, properties=""):
    return f'<w:r><w:rPr>{properties}</w:rPr><w:t xml:space="preserve">{text}</w:t></w:r>'


def paragraph(text, style="", more=""):
    return f'<w:p><w:pPr><w:pStyle w:val="{style}"/>{more}</w:pPr>{run(text)}</w:p>'


def style(identifier, name, more=""):
    return (
        f'<w:style w:type="paragraph" w:styleId="{identifier}"><w:name w:val="{name}"/>{more}'
        "</w:style>"
    )


def table(*rows, first=""):
    def cells(row):
        return "".join(cell if cell.startswith("<w:tc>") else tc(cell) for cell in row)

    head, *others = (f"<w:tr>{{}}{cells(row)}</w:tr>" for row in rows)
    return f"<w:tbl>{head.format(first)}{''.join(row.format('') for row in others)}</w:tbl>"


def tc(text, properties=""):
    return f"<w:tc><w:tcPr>{properties}</w:tcPr>{paragraph(text)}</w:tc>"


def test_a_document_by_python_docx(outline, in_source):
    written = python_docx.Document()
    written.core_properties.title = "Not shown"
    written.add_heading("Support contract", 0)
    written.add_heading("Scope", 1)
    written.add_paragraph("The supplier helps. He is quick.")
    written.add_paragraph("By phone", "List Bullet")
    written.add_heading("Prices", 2)
    prices = written.add_table(0, 2)
    for row in (("Item", "Price"), ("Support", "450 euros"), ("Training", "900 euros")):
        for cell, text in zip(prices.add_row().cells, row, strict=True):
            cell.text = text
    written.add_paragraph("Figure 1: A phone", "Caption")
    file = BytesIO()
    written.save(file)
    document = Document.from_bytes(file.getvalue())
    assert document.title == "Support contract"
    rows = ["Item: Support; Price: 450 euros", "Item: Training; Price: 900 euros"]
    assert outline(document) == [
        ("Scope", ["The supplier helps.", "He is quick.", "By phone"]),
        ("Scope > Prices", [*rows, "Figure 1: A phone"]),
    ]
    assert in_source(document) == [sentence.text for sentence in document.sentences()]
    assert kinds(document) == [
        ("prose", "paragraph 3", ["The supplier helps.", "He is quick."]),
        ("item", "paragraph 4", ["By phone"]),
        ("table", "table 1, row 2", rows[:1]),
        ("table", "table 1, row 3", rows[1:]),
        ("caption", "paragraph 6", ["Figure 1: A phone"]),
    ]


def test_headings_by_style_name_inheritance_and_outline_level(outline):
    styles = (
        style("berschrift1", "heading 1")
        + style("Mine", "Mine", '<w:basedOn w:val="berschrift1"/>')
        + style("Deep", "Deep", '<w:pPr><w:outlineLvl w:val="1"/></w:pPr>')
        + style("Text", "Text", '<w:basedOn w:val="Deep"/><w:pPr><w:outlineLvl w:val="9"/></w:pPr>')
        + style("Loop", "Loop", '<w:basedOn w:val="Loop"/>')
    )
    body = (
        paragraph("One", "berschrift1") + paragraph("A.") + paragraph("Two", "Mine")
        + paragraph("B.", "Loop") + paragraph("Three", "Deep") + paragraph("C.", "Text")
        + paragraph("Four", more='<w:outlineLvl w:val="0"/>') + paragraph("D.")
    )  # fmt: skip
    document = Document.from_bytes(docx(body, styles))
    expected = [("One", ["A."]), ("Two", ["B."]), ("Two > Three", ["C."]), ("Four", ["D."])]
    assert outline(document) == expected


@pytest.mark.parametrize(
    ("body", "core", "title"),
    [
        (paragraph("Cod", "Title") + paragraph("and eel", "Title"), "Other", "Cod and eel"),
        (paragraph("Cod", "Heading1"), "Other", "Cod"),
        ("", "Other", "Other"),
        ("", "", ""),
    ],
)
def test_the_title(body, core, title):
    properties = f'<p xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>{core}</dc:title></p>'
    data = docx(body + paragraph("Text."), **{"docProps/core.xml": properties})
    assert Document.from_bytes(data).title == title


def numbering(*levels, more=""):
    defined = "".join(
        f'<w:lvl w:ilvl="{number}"><w:start w:val="1"/><w:numFmt w:val="{form}"/>'
        f'<w:lvlText w:val="{template}"/></w:lvl>'
        for number, (form, template) in enumerate(levels)
    )
    return (
        f'<w:abstractNum w:abstractNumId="7">{defined}</w:abstractNum>'
        f'<w:num w:numId="1"><w:abstractNumId w:val="7"/></w:num>{more}'
    )


def item(text, level=0, number=1, style=""):
    properties = f'<w:numPr><w:ilvl w:val="{level}"/><w:numId w:val="{number}"/></w:numPr>'
    return paragraph(text, style, properties)


CLAUSES = ["1.\tTerm", "It lasts three years.", "2.\tFees", "The fee is due in May."]


def test_headings_of_a_word_document_without_styles(outline):
    def bold(text):
        return f"<w:p>{run(text, '<w:b/>')}</w:p>"

    centred = '<w:pPr><w:jc w:val="center"/></w:pPr>'
    cover = "".join(
        f"<w:p>{centred}{run(text, '<w:b/>')}</w:p>" for text in ("Dated 1 May 2024", "Lease")
    )
    cover += f"<w:p>{centred}{run('between')}</w:p>"
    body = (
        cover + bold("Parties:") + paragraph("A and B.")
        + "".join((bold if text[0].isdigit() else paragraph)(text) for text in CLAUSES)
        + bold("Schedule 1") + bold("Rooms") + paragraph("One is red.")
        + paragraph("One is blue.") + bold("Signed")
    )  # fmt: skip
    document = Document.from_bytes(docx(body), format="docx")
    assert document.title == "Lease"
    assert outline(document) == [
        ("", ["Dated 1 May 2024", "between", "Parties:", "A and B."]),
        ("1. Term", ["It lasts three years."]),
        ("2. Fees", ["The fee is due in May."]),
        ("Schedule 1 Rooms", ["One is red.", "One is blue.", "Signed"]),
    ]


def test_what_is_bold_is_no_heading_among_others_or_where_styles_mark_the_headings(outline):
    body = "".join(f"<w:p>{run(text, '<w:b/>')}</w:p>" for text in ("Cod", "Eel", "Hake", "Ling"))
    [(_, fish)] = outline(Document.from_bytes(docx(body), format="docx"))
    assert fish == ["Cod", "Eel", "Hake", "Ling"]
    styled = paragraph("Fish", "Heading1") + body + paragraph("They are fish.")
    document = Document.from_bytes(docx(styled), format="docx")
    assert document.title == "Fish"
    [(_, fish)] = outline(document)
    assert fish == ["Cod", "Eel", "Hake", "Ling", "They are fish."]


def test_headings_of_an_odt_without_styles(outline):
    styles = "".join(
        f'<style:style style:name="{name}" style:family="{family}"><style:text-properties '
        f'{more}fo:font-weight="bold"/></style:style>'
        for name, family, more in (("P1", "paragraph", 'fo:font-size="16pt" '), ("T1", "text", ""))
    )
    body = (
        '<text:p text:style-name="P1">Rules</text:p><text:p>They hold for all.</text:p>'
        '<text:p><text:span text:style-name="T1">1. Boats</text:span></text:p>'
        '<text:p>Tie <text:span text:style-name="T1">all</text:span> boats.</text:p>'
        '<text:p><text:span text:style-name="T1">2. Nets</text:span></text:p>'
        "<text:p>Dry the nets.</text:p>"
    )
    document = Document.from_bytes(odt(body, styles), format="odt")
    assert document.title == "Rules"
    assert outline(document) == [
        ("", ["They hold for all."]),
        ("1. Boats", ["Tie all boats."]),
        ("2. Nets", ["Dry the nets."]),
    ]


def test_items_have_their_numbers_as_word_shows_them():
    levels = [("decimal", "%1."), ("lowerLetter", "%1.%2)"), ("upperRoman", "(%3)"), ("bullet", "")]
    restart = (
        '<w:num w:numId="2"><w:abstractNumId w:val="7"/><w:lvlOverride w:ilvl="0">'
        '<w:startOverride w:val="5"/></w:lvlOverride></w:num>'
    )
    body = (
        item("The Developers, by election;") + item("x", 1) + item("y", 1) + item("deep", 2)
        + item("bullet", 3) + item("next") + item("z", 1) + item("other", 0, 2) + item("last")
        + item("unknown", 0, 99) + item("none", 0, 0)
    )  # fmt: skip
    document = Document.from_bytes(docx(body, numbering=numbering(*levels, more=restart)))
    assert [(kind, *sentences) for kind, _, sentences in kinds(document)] == [
        ("item", "1. The Developers, by election;"),
        ("item", "1.a) x"),
        ("item", "1.b) y"),
        ("item", "(I) deep"),
        ("item", "bullet"),
        ("item", "2. next"),
        ("item", "2.a) z"),
        ("item", "5. other"),
        ("item", "3. last"),
        ("item", "unknown"),
        ("prose", "none"),
    ]


def test_numbered_headings_and_styles_with_numbers(outline):
    number = '<w:pPr><w:numPr><w:ilvl w:val="{}"/><w:numId w:val="1"/></w:numPr></w:pPr>'
    styles = style("H1", "heading 1", number.format(0)) + style("H2", "heading 2", number.format(1))
    body = paragraph("Scope", "H1") + paragraph("Terms", "H2") + paragraph("Text.")
    data = docx(body, styles, numbering(("decimal", "§ %1"), ("decimal", "%1.%2")))
    assert outline(Document.from_bytes(data)) == [("1.1 Terms", ["Text."])]
    assert Document.from_bytes(data).title == "§ 1 Scope"


def test_clauses_numbered_by_a_list_of_word(outline):
    levels = numbering(("upperRoman", "Article %1"), ("decimalZero", "Section %1.%2"))
    legal = levels.replace('Section %1.%2"/>', 'Section %1.%2"/><w:isLgl/>')
    titles = ("Meaning of Words", "Notice", "Rent")
    body = item("The Lease") + "".join(item(f"{title}. It is so.", 1) for title in titles)
    for numbers, second in ((levels, "Section I.02"), (legal, "Section 1.02")):
        document = Document.from_bytes(docx(body, numbering=numbers))
        assert f"{second} Notice. It is so." in document.text
    assert outline(document)[1:] == [
        (f"Article I The Lease > Section 1.0{number} {title}", ["It is so."])
        for number, title in enumerate(titles, 1)
    ]


def test_what_is_shown_and_what_is_not():
    hidden = "<w:vanish/>"
    body = (
        "<w:p>" + run("Shown ") + f"<w:ins>{run('inserted ')}</w:ins>"
        "<w:del><w:r><w:delText>deleted </w:delText></w:r></w:del>"
        f"<w:moveFrom>{run('moved ')}</w:moveFrom>" + run("hidden ", hidden)
        + '<w:r><w:fldChar w:fldCharType="begin"/><w:instrText>REF x</w:instrText></w:r>'
        + f"<w:hyperlink>{run('link')}</w:hyperlink><w:fldSimple>{run(' field')}</w:fldSimple>"
        "<w:r><w:commentReference/><w:tab/><w:noBreakHyphen/><w:br/></w:r>" + run("end.")
        + "</w:p>"
        + "<w:p/>" + paragraph(" ")
        + f"<w:p><w:del>{run('All of it.')}</w:del></w:p>"
        + paragraph("Contents 1", "TOC1")
        + "<w:sdt><w:sdtPr><w:docPartObj><w:docPartGallery w:val='Table of Contents'/>"
        f"</w:docPartObj></w:sdtPr><w:sdtContent>{paragraph('Entry')}</w:sdtContent></w:sdt>"
        + f"<w:sdt><w:sdtContent>{paragraph('In a control.')}</w:sdtContent></w:sdt>"
    )  # fmt: skip
    assert kinds(Document.from_bytes(docx(body))) == [
        ("prose", "paragraph 1", ["Shown inserted link field \u2011 end."]),
        ("prose", "paragraph 4", ["In a control."]),
    ]


def test_clauses_with_the_styles_of_headings_are_text(outline):
    styles = "".join(style(f"Heading{n}", f"heading {n}") for n in (1, 2))
    body = "".join(
        paragraph(text, name)
        for text, name in (
            ("Rent", "Heading1"),
            ("The tenant pays the rent to the landlord on the first day of a month.", "Heading2"),
            ("The rent is reduced for as long as the house cannot be lived in; and", "Heading2"),
            ("It is fixed.", "Heading2"),
            ("Term", "Heading1"),
            ("It lasts a year.", ""),
        )
    )
    assert outline(Document.from_bytes(docx(body, styles))) == [
        (
            "Rent",
            [
                "The tenant pays the rent to the landlord on the first day of a month.",
                "The rent is reduced for as long as the house cannot be lived in; and",
                "It is fixed.",
            ],
        ),
        ("Term", ["It lasts a year."]),
    ]


def test_a_table_whose_cells_have_headings_lays_out_the_page(outline):
    styles = style("Heading1", "heading 1")
    left = tc("").replace("</w:tc>", "") + paragraph("Cod", "Heading1") + paragraph("They swim.")
    body = f"<w:tbl><w:tr>{left}</w:tc>{tc('They eat.')}</w:tr></w:tbl>"
    document = Document.from_bytes(docx(paragraph("On fish.") + body, styles))
    assert outline(document) == [("", ["On fish."]), ("Cod", ["They swim.", "They eat."])]


def test_notes_follow_the_paragraph_that_refers_to_them():
    notes = "".join(
        f'<w:footnote w:id="{number}">{paragraph(text)}</w:footnote>'
        for number, text in enumerate(["separator", "See Smith.", "See Miller. Twice."])
    )
    reference = '<w:r><w:footnoteReference w:id="{}"/></w:r>'
    body = (
        f"<w:p>{run('Cod')}{reference.format(2)}{run(' swim.')}</w:p>"
        + table(["A", "B", "C"], ["x", "y", f"<w:tc><w:p>{reference.format(1)}</w:p></w:tc>"])
        + paragraph("End.")
    )
    assert kinds(Document.from_bytes(docx(body, footnotes=notes))) == [
        ("prose", "paragraph 1", ["Cod swim."]),
        ("footnote", "footnote 1", ["See Miller.", "Twice."]),
        ("table", "table 1, row 2", ["A: x; B: y"]),
        ("footnote", "footnote 2", ["See Smith."]),
        ("prose", "paragraph 2", ["End."]),
    ]


def test_text_boxes_are_read_once():
    box = f"<w:txbxContent>{paragraph('In the box.')}</w:txbxContent>"
    compatible = 'xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006"'
    drawing = (
        f"<w:r><mc:AlternateContent {compatible}><mc:Choice>{box}</mc:Choice>"
        f"<mc:Fallback>{box}</mc:Fallback></mc:AlternateContent></w:r>"
    )
    body = f"<w:p>{run('Around.')}{drawing}</w:p>"
    assert [part[2] for part in kinds(Document.from_bytes(docx(body)))] == [
        ["Around."],
        ["In the box."],
    ]


BOLD = (
    f"<w:tc><w:p>{run('Fish', '<w:b/>')}</w:p></w:tc><w:tc><w:p>{run('Sea', '<w:b/>')}</w:p></w:tc>"
)
LOOK = '<w:tblPr><w:tblStyle w:val="T"/><w:tblLook w:firstRow="1"/></w:tblPr>'


@pytest.mark.parametrize(
    ("written", "said"),
    [
        (table(["Item", "Price"], ["Support", "450"]), ["Item: Support; Price: 450"]),
        (table(["Name", "Ann Smith"], ["City", "Rome"]), ["Name; Ann Smith", "City; Rome"]),
        (table(["Who", "What", "When"], ["Ann", "it", "now"]), ["Who: Ann; What: it; When: now"]),
        (table(["", "2020"], ["Cod", "5"]), ["Cod; 2020: 5"]),
        (
            table(["a", "b"], ["c", "d"], first="<w:trPr><w:tblHeader/></w:trPr>"),
            ["a: c; b: d"],
        ),
        (f"<w:tbl><w:tr>{BOLD}</w:tr><w:tr>{tc('cod')}{tc('cold')}</w:tr></w:tbl>",
         ["Fish: cod; Sea: cold"]),
        (table(["a", "b"], ["c", "d"]).replace("<w:tbl>", f"<w:tbl>{LOOK}"), ["a: c; b: d"]),
        (
            table(
                ["Area", "Town", "Size"],
                [tc("North", '<w:vMerge w:val="restart"/>'), "Ayr", "1"],
                [tc("", "<w:vMerge/>"), "Oban", "2"],
                [tc("All of them", '<w:gridSpan w:val="3"/>')],
            ),
            ["Area: North; Town: Ayr; Size: 1", "Area: North; Town: Oban; Size: 2", "All of them"],
        ),
        (table(["One column. Two sentences."]), ["One column.", "Two sentences."]),
        (
            table(["A", "B", "C"], [f"<w:tc>{table(['x', 'y'])}</w:tc>", "z", ""]),
            ["A", "B", "C", "x; y", "z"],
        ),
        (table(["A", "B"], ["x" * 10, tc("y", '<w:gridSpan w:val="999999"/>')]), None),
    ],
)  # fmt: skip
def test_tables(written, said):
    styles = (
        '<w:style w:type="table" w:styleId="T"><w:name w:val="Grid"/>'
        '<w:tblStylePr w:type="firstRow"/></w:style>'
    )
    document = Document.from_bytes(docx(written + paragraph("End."), styles))
    sentences = [sentence.text for sentence in document.sentences()]
    assert sentences[-1] == "End."
    assert said is None or sentences[:-1] == said


def test_code_formulas_and_references_have_their_kinds():
    math = 'xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math"'
    body = (
        f"<w:p><w:pPr><w:pStyle w:val='SourceCode'/></w:pPr>{run('def f():')}<w:r><w:br/></w:r>"
        f"{run('    pass')}</w:p><w:p><m:oMathPara {math}><m:r><m:t>a=</m:t></m:r><m:sSup>"
        "<m:e><m:d><m:e><m:r><m:t>b</m:t></m:r></m:e></m:d></m:e><m:sup><m:r><m:t>2</m:t></m:r></m:sup>"
        "</m:sSup></m:oMathPara>"
        "</w:p>" + paragraph("Smith 2020.", "Bibliography")
    )
    document = Document.from_bytes(docx(body, style("SourceCode", "Source Code")))
    assert kinds(document) == [
        ("code", "paragraph 1", ["def f():\n    pass"]),
        ("formula", "paragraph 2", ["a = (b)^2"]),
        ("reference", "paragraph 3", ["Smith 2020."]),
    ]
    assert document.text.startswith("def f():\n    pass\n")


def test_an_old_word_file_is_refused(tmp_path):
    path = tmp_path / "old.docx"
    path.write_bytes(bytes.fromhex("d0cf11e0a1b11ae1") + bytes(100))
    with pytest.raises(DocumentError, match=r"old\.docx is an old Word file"):
        Document.from_file(path)


LIST = (
    '<text:list-style style:name="L"><text:list-level-style-number text:level="1" '
    'style:num-format="1" style:num-suffix="."/><text:list-level-style-number text:level="2" '
    'style:num-format="a" style:num-suffix=")" text:display-levels="2"/></text:list-style>'
    '<text:list-style style:name="B"><text:list-level-style-bullet text:level="1"/>'
    "</text:list-style>"
)


def text_list(*items, style="L", more=""):
    listed = "".join(f"<text:list-item>{item}</text:list-item>" for item in items)
    name = f' text:style-name="{style}"' if style else ""
    return f"<text:list{name}{more}>{listed}</text:list>"


def test_odt(outline, in_source):
    styles = (
        '<style:style style:name="P1" style:family="paragraph" style:parent-style-name="Title"/>'
        '<style:style style:name="P2" style:family="paragraph" '
        'style:parent-style-name="Preformatted_20_Text"/>'
        '<style:style style:name="Table" style:family="paragraph" '
        'style:parent-style-name="Caption"/>' + LIST
    )
    note = (
        '<text:note text:note-class="footnote"><text:note-citation>1</text:note-citation>'
        "<text:note-body><text:p>See Smith.</text:p></text:note-body></text:note>"
    )
    body = (
        "<text:tracked-changes><text:p>Deleted.</text:p></text:tracked-changes>"
        '<text:p text:style-name="P1">The Sea</text:p>'
        "<text:table-of-content><text:p>Fish 1</text:p></text:table-of-content>"
        '<text:h text:outline-level="1">Fish</text:h><text:p/>'
        f"<text:p>Cod<text:s text:c='2'/>{note} swim.<text:line-break/>They<text:tab/>eat."
        "<office:annotation><text:p>Comment</text:p></office:annotation></text:p>"
        '<text:h text:outline-level="2">Kinds</text:h>'
        + text_list("<text:p>One;</text:p>" + text_list("<text:p>deep</text:p>", style=""))
        + text_list("<text:p>first</text:p><text:p>More.</text:p>", "<text:p>second</text:p>")
        + text_list("<text:p>third</text:p>", more=' text:continue-numbering="true"')
        + text_list("<text:p>bullet</text:p>", style="B")
        + '<text:p text:style-name="P2">a = 1</text:p><text:p text:style-name="P2">  b</text:p>'
        "<text:p><draw:frame><draw:text-box>"
        '<text:p text:style-name="Table">Table 1: Fish</text:p></draw:text-box></draw:frame>'
        "</text:p>"
    )
    document = Document.from_bytes(odt(body, styles))
    assert document.title == "The Sea"
    assert [path for path, _ in outline(document)] == ["Fish", "Fish > Kinds"]
    assert kinds(document) == [
        ("prose", "paragraph 4", ["Cod swim.", "They eat."]),
        ("footnote", "footnote 1", ["See Smith."]),
        ("item", "paragraph 6", ["1. One;"]),
        ("item", "paragraph 7", ["1.a) deep"]),
        ("item", "paragraph 8", ["1. first"]),
        ("prose", "paragraph 9", ["More."]),
        ("item", "paragraph 10", ["2. second"]),
        ("item", "paragraph 11", ["3. third"]),
        ("item", "paragraph 12", ["bullet"]),
        ("code", "paragraph 13", ["a = 1\n b"]),
        ("caption", "paragraph 15", ["Table 1: Fish"]),
    ]
    assert [text.split() for text in in_source(document)] == [
        sentence.text.split() for sentence in document.sentences()
    ]


def test_an_item_of_odt_may_begin_its_list_again():
    body = text_list("<text:p>One.</text:p>", "<text:p>Two.</text:p>")
    body = body.replace("<text:list-item>", '<text:list-item text:start-value="7">', 1)
    document = Document.from_bytes(odt(body, LIST))
    assert [one.text for one in document.sentences()] == ["7. One.", "8. Two."]


def test_odt_tables_and_numbered_headings(outline):
    def row(*cells):
        return f"<table:table-row>{''.join(cells)}</table:table-row>"

    def cell(text, more=""):
        return f"<table:table-cell {more}><text:p>{text}</text:p></table:table-cell>"

    covered = "<table:covered-table-cell/>"
    written = (
        "<table:table><table:table-column/><table:table-header-rows>"
        + row(cell("Area"), cell("Size", 'table:number-columns-spanned="2"'), covered)
        + "</table:table-header-rows>"
        + row(cell("North", 'table:number-rows-spanned="2"'), cell("1"), cell("2"))
        + row(covered, cell("3", 'table:number-columns-repeated="2"'))
        + "</table:table>"
    )
    outline_style = (
        '<text:outline-style><text:outline-level-style text:level="1" style:num-format="I" '
        'style:num-suffix="."/></text:outline-style>'
    )
    headings = "<text:h>A</text:h><text:p>Text.</text:p><text:h>B</text:h>"
    document = Document.from_bytes(odt(headings + written, outline_style))
    rows = ["Area: North; Size: 1; Size: 2", "Area: North; Size: 3"]
    assert outline(document) == [("I. A", ["Text."]), ("II. B", rows)]
    assert [span.place for span in document.spans()][1:] == ["table 1, row 2", "table 1, row 3"]


def test_formulas_of_an_odt():
    math = 'xmlns="http://www.w3.org/1998/Math/MathML"'
    square = f"<math {math}><semantics><msup><mi>x</mi><mn>2</mn></msup><annotation>a</annotation>"
    part = {"Object 1/content.xml": f"{square}</semantics></math>"}
    xlink = 'xmlns:xlink="http://www.w3.org/1999/xlink"'
    shown = f'<draw:frame><draw:object {xlink} xlink:href="./Object 1"/></draw:frame>'
    document = Document.from_bytes(odt(f"<text:p>Let {shown} be {shown}.</text:p>", **part))
    assert [sentence.text for sentence in document.sentences()] == ["Let x^2 be x^2."]


def test_a_flat_odt(tmp_path):
    path = tmp_path / "x.fodt"
    path.write_bytes(flat_odt("<text:p>Hello.</text:p>"))
    assert [one.text for one in Document.from_file(path).sentences()] == ["Hello."]


def test_a_password_is_told():
    manifest = {"META-INF/manifest.xml": "<m><encryption-data/></m>"}
    with pytest.raises(DocumentError, match="has a password"):
        Document.from_bytes(odt("", **manifest))


@pytest.mark.parametrize("name", ["x.docx", "x.odt"])
@pytest.mark.parametrize("content", [b"", b"junk", b"PK\x03\x04junk", archive({"a": "b"})])
def test_other_files_are_refused(tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(DocumentError, match=r"x\.\w+ (cannot be read as|is not a whole)"):
        Document.from_file(path)


@pytest.mark.parametrize(
    ("data", "format"),
    [
        (docx(paragraph("Hello there. ") * 5 + table(["A", "B"], ["1", "2"])), "docx"),
        (odt("<text:p>Hello.</text:p>" + text_list("<text:p>x</text:p>"), LIST), "odt"),
    ],
)
def test_damaged_files_are_read_or_refused_in_a_sentence(data, format):
    random = Random(0)
    messages = []
    for _ in range(200):
        damaged = bytearray(data[: random.randrange(len(data))] if random.random() < 0.2 else data)
        for _ in range(random.randrange(8)):
            damaged[random.randrange(len(damaged))] = random.randrange(256)
        try:
            Document.from_bytes(bytes(damaged), format=format)
        except DocumentError as error:
            messages.append(str(error))
    assert all(message.startswith("The data ") for message in messages)
    assert len(messages) > 20


def test_any_markup_is_read_or_refused():
    """Each attribute is replaced by nonsense once."""
    look = '<w:tblPr><w:tblStyle w:val="T"/><w:tblLook w:val="04A0" w:firstRow="1"/></w:tblPr>'
    cells = table(["A", tc("B", '<w:gridSpan w:val="2"/>')], ["1", "2"])
    body = item("x") + cells.replace("<w:tbl>", f"<w:tbl>{look}")
    parts = [body, style("H1", "heading 1"), numbering(("decimal", "%1"))]
    for nonsense in ("", "-1", "99999999999999999999", "x", "²"):
        for number in range(len(parts)):
            changed = list(parts)
            pieces = changed[number].split('"')
            for place in range(1, len(pieces), 2):
                changed[number] = '"'.join([*pieces[:place], nonsense, *pieces[place + 1 :]])
                document = Document.from_bytes(docx(*changed))
                assert document.text.strip()


def test_a_zip_bomb_is_refused():
    with pytest.raises(DocumentError, match="larger than DOCX is: it is rejected as a ZIP bomb"):
        Document.from_bytes(docx(paragraph("Hi."), bomb=b"\0" * (2**28 + 1)))


def test_too_many_parts_are_refused():
    parts = {f"part{i}": "" for i in range(10_000)}
    with pytest.raises(DocumentError, match=r"has 100\d\d parts"):
        Document.from_bytes(docx(paragraph("Hi."), **parts))


def test_entities_and_too_much_markup_are_refused(monkeypatch):
    bomb = {"word/document.xml": '<!DOCTYPE a [<!ENTITY x "ha">]><a>&x;</a>'}
    for encoding in ("utf-8", "utf-16"):
        data = docx("", **{"word/document.xml": bomb["word/document.xml"].encode(encoding)})
        with pytest.raises(DocumentError, match="declares XML entities"):
            Document.from_bytes(data)
    monkeypatch.setattr("foveate.documents.markup.MAX_MARKUP", 100)
    with pytest.raises(DocumentError, match="has more markup than DOCX"):
        Document.from_bytes(docx(paragraph("Hi.") * 20))


def test_deeply_nested_tables_are_read_or_refused():
    def nested(depth):
        return "<w:tbl><w:tr><w:tc>" * depth + paragraph("In.") + "</w:tc></w:tr></w:tbl>" * depth

    assert "In." in Document.from_bytes(docx(nested(60))).text
    with pytest.raises(DocumentError, match="cannot be read as DOCX"):
        Document.from_bytes(docx(nested(10_000)))


def raised(text, level="superscript"):
    return run(text, f'<w:vertAlign w:val="{level}"/>')


def test_scripts_and_symbols_of_a_word_document():
    beta = run("b", '<w:rFonts w:ascii="Symbol"/>')
    symbol = '<w:r><w:sym w:font="{}" w:char="{}"/></w:r>'
    body = (
        f"<w:p>{run('It is 10')}{raised('−')}{raised('3')}{run(' N per m')}{raised('2')}"
        f"{run(' on the 2')}{raised('nd')}{run(' day. As shown')}{raised('1')}{run(', x')}"
        f"{raised('i', 'subscript')}{run(' of CO')}{raised('2', 'subscript')}{run(' is ')}"
        f"{symbol.format('Symbol', 'F061')}{beta}"
        f"{symbol.format('Wingdings', 'F0FC')}{symbol.format('Other', 'zz')}{run('.')}</w:p>"
    )
    document = Document.from_bytes(docx(body))
    assert [sentence.text for sentence in document.sentences()] == [
        "It is 10^−3 N per m^2 on the 2nd day.",
        "As shown, x_i of CO2 is αβ✓.",
    ]


def test_the_chosen_entry_of_a_list_in_a_form():
    entries = '<w:listEntry w:val="Red"/><w:listEntry w:val="Blue"/>'
    body = (
        f'<w:p>{run("Colour: ")}<w:r><w:fldChar w:fldCharType="begin"><w:ffData><w:ddList>'
        f'<w:result w:val="1"/>{entries}</w:ddList></w:ffData></w:fldChar></w:r></w:p>'
    )
    [sentence] = Document.from_bytes(docx(body)).sentences()
    assert sentence.text == "Colour: Blue"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("chunk.html", "<html><body><h1>Inner</h1><p>It is here.</p></body></html>"),
        (
            "chunk.rtf",
            r"{\rtf1\ansi{\stylesheet{\s1 heading 1;}}\pard\s1 Inner\par\pard It is here.\par}",
        ),
        ("chunk.docx", docx(paragraph("Inner", "Heading1") + paragraph("It is here."))),
    ],
)
def test_parts_in_other_formats_are_read(outline, name, content):
    relations = (
        f'<Relationships xmlns="{PACKAGE}/relationships"><Relationship Id="c" '
        f'Type="{OFFICE}/aFChunk" Target="{name}"/></Relationships>'
    )
    body = f'{paragraph("Outer.")}<w:altChunk xmlns:r="{OFFICE}" r:id="c"/>'
    parts = {"word/_rels/document.xml.rels": relations, f"word/{name}": content}
    document = Document.from_bytes(docx(body, **parts))
    assert outline(document) == [("", ["Outer."]), ("Inner", ["It is here."])]


def test_a_part_that_cannot_be_read_is_told():
    relations = (
        f'<Relationships xmlns="{PACKAGE}/relationships"><Relationship Id="c" '
        f'Type="{OFFICE}/aFChunk" Target="chunk.xyz"/></Relationships>'
    )
    body = f'{paragraph("Outer.")}<w:altChunk xmlns:r="{OFFICE}" r:id="c"/>'
    parts = {"word/_rels/document.xml.rels": relations, "word/chunk.xyz": b"\1\2\3\0"}
    with pytest.raises(DocumentError, match=r"has a part, word/chunk\.xyz, that"):
        Document.from_bytes(docx(body, **parts))


def test_scripts_of_an_odt():
    def position(name, where):
        return (
            f'<style:style style:name="{name}" style:family="text"><style:text-properties '
            f'style:text-position="{where}"/></style:style>'
        )

    styles = position("T1", "super 58%") + position("T2", "-33% 58%")
    up, down = '<text:span text:style-name="T1">', '<text:span text:style-name="T2">'
    text = (
        f"<text:p>It is 10{up}3</text:span> on the 2{up}nd</text:span> day. As shown"
        f"{up}1</text:span>, x{down}i</text:span> rose.</text:p>"
    )
    document = Document.from_bytes(odt(text, styles))
    shown = [sentence.text for sentence in document.sentences()]
    assert shown == ["It is 10^3 on the 2nd day.", "As shown, x_i rose."]


def test_slides_have_their_numbers(outline):
    document = Document.from_bytes(pptx(("Cod", "Cod swim. They eat."), ("Eel", "Eels hide.")))
    assert outline(document) == [("Cod", ["Cod swim.", "They eat."]), ("Eel", ["Eels hide."])]
    assert [span.place for span in document.spans()] == ["slide 1", "slide 1", "slide 2"]


def test_rows_have_their_sheets(outline):
    document = Document.from_bytes(xlsx("Prices", [["Item", "Price"], ["Hose", "5"], ["Tap", "6"]]))
    assert outline(document) == [("Prices", ["Item: Hose; Price: 5", "Item: Tap; Price: 6"])]
    assert [span.place for span in document.spans()] == [
        "sheet Prices, row 2",
        "sheet Prices, row 3",
    ]


def test_a_damaged_presentation_is_refused():
    with pytest.raises(DocumentError, match="PPTX"):
        Document.from_bytes(pptx(("Cod", "Cod swim."))[:-100], format="pptx")


def test_messages_without_kreuzberg_say_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "kreuzberg", None)
    with pytest.raises(ImportError, match=r"foveate\[office\]"):
        Document.from_bytes(msg("Pumps", "The pump is old."), format="msg")


@pytest.mark.parametrize(
    ("value", "code", "shown"),
    [
        (43620, "yyyy-mm-dd", "2019-06-04"),
        (43620.5, "dd.mm.yyyy hh:mm", "04.06.2019 12:00"),
        (43620, "[$-407]d. mmmm yy", "4. June 19"),
        (0.75, "h:mm AM/PM", "6:00 PM"),
        (0.5001, "hh:mm:ss", "12:00:09"),
        (1.5, "[h]:mm", "36:00"),
        (59, "d/m/yyyy", "28/2/1900"),
        (0.125, "0.0%", "12.5%"),
        (1234.5, '#,##0.00\\ "kr"', "1,234.50 kr"),
        (-3, "0;(0)", "(3)"),
        (7, "00000", "00007"),
        (2.5, "0.##", "2.5"),
        (1234567, '#,##0,"k"', "1,235k"),
        (5, "[$€-2] 0", "€ 5"),
        (0.1, "", "0.1"),
        (1e9, "yyyy", "1000000000"),
    ],
)
def test_numbers_are_written_as_a_sheet_shows_them(value, code, shown):
    assert number_formats.show(value, code) == shown


def relate(**targets):
    inner = "".join(
        f'<Relationship Id="{name}" Type="{OFFICE}/{role}" Target="{target}"/>'
        for name, (role, target) in targets.items()
    )
    return f'<Relationships xmlns="{PACKAGE}/relationships">{inner}</Relationships>'


MAIN = "http://schemas.openxmlformats.org"
CHART = (
    f'<c:chartSpace xmlns:c="{MAIN}/drawingml/2006/chart" xmlns:a="{MAIN}/drawingml/2006/main">'
    "<c:chart><c:title><c:tx><c:rich><a:p><a:r><a:t>Wheels by year</a:t></a:r></a:p></c:rich>"
    "</c:tx></c:title><c:plotArea><c:barChart><c:ser><c:tx><c:strRef><c:strCache><c:pt idx='0'>"
    "<c:v>Wheels</c:v></c:pt></c:strCache></c:strRef></c:tx><c:cat><c:strRef><c:strCache>"
    "<c:pt idx='0'><c:v>1900</c:v></c:pt></c:strCache></c:strRef></c:cat><c:val><c:numRef>"
    "<c:numCache><c:pt idx='0'><c:v>12</c:v></c:pt></c:numCache></c:numRef></c:val></c:ser>"
    "</c:barChart></c:plotArea></c:chart></c:chartSpace>"
)
DIAGRAM = (
    f'<d:dataModel xmlns:d="{MAIN}/drawingml/2006/diagram" xmlns:a="{MAIN}/drawingml/2006/main">'
    '<d:ptLst><d:pt type="doc"/><d:pt><d:t><a:p><a:r><a:t>Grind</a:t></a:r></a:p></d:t></d:pt>'
    '<d:pt type="parTrans"><d:t><a:p/></d:t></d:pt>'
    "<d:pt><d:t><a:p><a:r><a:t>Sift</a:t></a:r></a:p></d:t></d:pt></d:ptLst></d:dataModel>"
)
DRAWN = [("caption", ["Wheels by year"]), ("table", ["1900; Wheels: 12"])]
FRAMES = (
    f'<p:graphicFrame xmlns:p="{MAIN}/presentationml/2006/main" xmlns:r="{OFFICE}">'
    f'<c:chart xmlns:c="{MAIN}/drawingml/2006/chart" r:id="c"/>'
    f'<d:relIds xmlns:d="{MAIN}/drawingml/2006/diagram" r:dm="d" r:lo="x"/></p:graphicFrame>'
)


def repacked(data, **parts):
    """A package with other parts."""
    packed = zipfile.ZipFile(BytesIO(data))
    known = {name: packed.read(name) for name in packed.namelist()}
    return pack_zip(known | {name: part.encode() for name, part in parts.items()})


def of_kinds(document):
    return [(one.kind, [s.text for s in one.sentences]) for one in document.paragraphs()]


def test_slides_show_charts_smart_art_and_notes():
    data = pptx(("Mill", "It turns."), ("Lonely", ""))
    slide = zipfile.ZipFile(BytesIO(data)).read("ppt/slides/slide1.xml").decode()
    numbered = (
        "<p:sp><p:txBody><a:p><a:pPr><a:buAutoNum type='arabicPeriod' startAt='3'/></a:pPr><a:r>"
        "<a:t>Stop.</a:t></a:r></a:p></p:txBody></p:sp>"
    )
    notes = (
        f'<p:notes xmlns:p="{MAIN}/presentationml/2006/main" '
        f'xmlns:a="{MAIN}/drawingml/2006/main"><p:sp><p:nvSpPr><p:nvPr><p:ph type="body"/></p:nvPr>'
        "</p:nvSpPr><p:txBody><a:p><a:r><a:t>Say this.</a:t></a:r></a:p></p:txBody></p:sp>"
        "</p:notes>"
    )
    document = Document.from_bytes(
        repacked(
            data,
            **{
                "ppt/slides/slide1.xml": slide.replace(
                    "</p:spTree>", f"{numbered}{FRAMES}</p:spTree>"
                ),
                "ppt/slides/_rels/slide1.xml.rels": relate(
                    c=("chart", "../c.xml"),
                    d=("diagramData", "../d.xml"),
                    n=("notesSlide", "../n.xml"),
                ),
                "ppt/c.xml": CHART,
                "ppt/d.xml": DIAGRAM,
                "ppt/n.xml": notes,
            },
        )
    )
    assert of_kinds(document) == [
        ("prose", ["It turns."]),
        ("item", ["3. Stop."]),
        *DRAWN,
        *(("item", ["Grind"]), ("item", ["Sift"])),
        ("prose", ["Say this."]),
        ("prose", ["Lonely"]),
    ]
    assert [span.place for span in document.spans()][-2:] == ["notes of slide 1", "slide 2"]


def test_charts_and_smart_art_of_word_are_read():
    parts = {
        "word/_rels/document.xml.rels": relate(c=("chart", "c.xml"), d=("diagramData", "d.xml")),
        "word/c.xml": CHART,
        "word/d.xml": DIAGRAM,
    }
    body = f"<w:p><w:r><w:t>It turns.</w:t></w:r><w:r><w:drawing>{FRAMES}</w:drawing></w:r></w:p>"
    assert of_kinds(Document.from_bytes(docx(body, **parts))) == [
        ("prose", ["It turns."]),
        *DRAWN,
        *(("item", ["Grind"]), ("item", ["Sift"])),
    ]


def test_sheets_as_they_are_shown(caplog):
    spaces = f'xmlns="{MAIN}/spreadsheetml/2006/main" xmlns:r="{OFFICE}"'

    def cell(name, text):
        return f'<c r="{name}" t="inlineStr"><is><t>{text}</t></is></c>'

    rows = (
        f'<row r="1">{cell("A1", "Parts of the mill")}</row>'
        f'<row r="3">{cell("A3", "Part")}{cell("B3", "Price")}{cell("E3", "Bought")}</row>'
        f'<row r="4">{cell("B4", "net")}{cell("C4", "gross")}</row>'
        f'<row r="5">{cell("A5", "Wheel")}<c r="B5"><v>300</v></c><c r="C5"><v>375.5</v></c>'
        '<c r="E5" s="1"><v>43620</v></c></row>'
        f'<row r="7">{cell("A7", "Stone")}<c r="B7"><v>1</v></c><c r="C7"><v>2</v></c>'
        '<c r="E7" s="1"><v>43621</v></c></row>'
    )
    sheet = (
        f"<worksheet {spaces}><sheetData>{rows}</sheetData><mergeCells>"
        '<mergeCell ref="B3:C3"/><mergeCell ref="A3:A4"/></mergeCells></worksheet>'
    )
    hidden = (
        f"<worksheet {spaces}><sheetData><row>{cell('A1', 'Secret')}</row></sheetData></worksheet>"
    )
    data = repacked(
        xlsx("Parts", []),
        **{
            "xl/workbook.xml": f'<workbook {spaces}><sheets><sheet name="Parts" r:id="s1"/>'
            '<sheet name="Margins" state="hidden" r:id="s2"/></sheets></workbook>',
            "xl/_rels/workbook.xml.rels": relate(
                s1=("worksheet", "worksheets/sheet1.xml"),
                s2=("worksheet", "s2.xml"),
                s3=("styles", "styles.xml"),
            ),
            "xl/styles.xml": f'<styleSheet {spaces}><cellXfs><xf numFmtId="0"/><xf numFmtId="14"/>'
            "</cellXfs></styleSheet>",
            "xl/worksheets/sheet1.xml": sheet,
            "xl/worksheets/_rels/sheet1.xml.rels": relate(d=("drawing", "../drawing.xml")),
            "xl/drawing.xml": "<wsDr/>",
            "xl/_rels/drawing.xml.rels": relate(c=("chart", "c.xml")),
            "xl/c.xml": CHART,
            "xl/s2.xml": hidden,
        },
    )
    document = Document.from_bytes(data)
    assert of_kinds(document) == [
        ("prose", ["Parts of the mill"]),
        (
            "table",
            [
                "Part: Wheel; Price net: 300; Price gross: 375.5; Bought: 2019-06-04",
                "Part: Stone; Price net: 1; Price gross: 2; Bought: 2019-06-05",
            ],
        ),
        *DRAWN,
    ]
    assert document.spans()[1].place == "sheet Parts, row 5"
    assert "Hidden sheets are left out: Margins." in caplog.text


def test_sheets_of_opendocument(caplog):
    oasis = "urn:oasis:names:tc:opendocument:xmlns"

    def table(name, style, *rows):
        cells = "".join(
            "<t:table-row>"
            + "".join(
                f"<t:table-cell {more}><x:p>{text}</x:p></t:table-cell>" for text, more in row
            )
            + "</t:table-row>"
            for row in rows
        )
        return f'<t:table t:name="{name}" t:style-name="{style}">{cells}</t:table>'

    number = 'o:value-type="float"'
    data = (
        f'<o:document xmlns:o="{oasis}:office:1.0" xmlns:t="{oasis}:table:1.0" '
        f'xmlns:x="{oasis}:text:1.0" xmlns:s="{oasis}:style:1.0"><o:automatic-styles>'
        '<s:style s:name="H" s:family="table"><s:table-properties t:display="false"/></s:style>'
        "</o:automatic-styles><o:body><o:spreadsheet>"
        + table(
            "Parts",
            "S",
            [("Part", ""), ("Bought", "")],
            [("Wheel", ""), ("4.6.2019", number)],
            [("Stone", ""), ("5.6.2019", f'{number} t:number-columns-repeated="9000"')],
        )
        + table("Margins", "H", [("Secret", "")])
        + "</o:spreadsheet></o:body></o:document>"
    )
    document = Document.from_bytes(data.encode(), format="ods")
    assert document.title == "Parts"
    span = document.spans()[0]
    assert (span.place, span.text) == (
        "sheet Parts, row 2",
        "Part: Wheel; Bought: 4.6.2019",
    )
    assert "left out: Margins." in caplog.text


def test_a_winmail_dat_is_refused_as_what_it_is():
    tnef = bytes.fromhex("789f3e22") + bytes(40)
    with pytest.raises(DocumentError, match=r"winmail\.dat"):
        Document.from_bytes(tnef)
    mail = EmailMessage()
    mail["From"], mail["Subject"] = "a@b.org", "Pumps"
    mail.set_content("")
    mail.add_attachment(tnef, maintype="application", subtype="ms-tnef", filename="winmail.dat")
    with pytest.raises(DocumentError, match=r"winmail\.dat"):
        Document.from_bytes(mail.as_bytes(), format="email")


def test_messages_of_outlook_are_read_as_mail(monkeypatch, tmp_path):
    kreuzberg = pytest.importorskip("kreuzberg")
    path = tmp_path / "pumps.msg"
    path.write_bytes(msg("Pumps", "The pump is old.\r\n\r\n-- \r\nAnn"))
    document = Document.from_file(path)
    assert document.title == "Pumps"
    assert [sentence.text for sentence in document.sentences()] == ["The pump is old."]

    sent = 'Subject: Pumps\nFrom: "Ann Lee" <a@b.org>\nDate: 2013-11-18T08:26:24+00:00\n\nOld.'
    result = SimpleNamespace(content=sent, metadata={})
    monkeypatch.setattr(kreuzberg, "extract_bytes_sync", lambda *_: result)
    document = Document.from_file(path)
    assert (document.authors, document.date) == (("Ann Lee",), "2013-11-18")


def test_slides_of_an_odp():
    slides = ("Cod", "Cod swim. They eat.", "Smile here."), ("Eel", "Eels hide.", "")
    document = Document.from_bytes(odp(*slides))
    assert [section.title for _, section in document.walk()] == ["Cod", "Eel"]
    assert [(span.place, span.text) for span in document.spans()] == [
        ("slide 1", "Cod swim."),
        ("slide 1", "They eat."),
        ("notes of slide 1", "Smile here."),
        ("slide 2", "Eels hide."),
    ]
