"""Presentations (PPTX): slides with their tables, charts and SmartArt, and the notes."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from foveate.documents import formulas
from foveate.documents.blocks import Block, Heading, ParsedText, Prose, collapse, compose_text
from foveate.documents.markup import Element, attribute, integer, local
from foveate.documents.metadata import split_names
from foveate.documents.numerals import ListLevel, next_marker
from foveate.documents.readers.office.drawings import drawn_blocks
from foveate.documents.readers.office.package import Package, reference
from foveate.documents.readers.office.paragraphs import ShownText, table_cell
from foveate.documents.structure import Kind
from foveate.documents.tables import table_blocks

_FURNITURE = ("dt", "ftr", "hdr", "sldNum", "sldImg")
_STYLES = {"arabic": "1", "alphaLc": "a", "alphaUc": "A", "romanLc": "i", "romanUc": "I"}


def read(data: bytes) -> ParsedText:
    """Read the slides, each with the notes of its speaker below it."""
    package = Package(data, "PPTX")
    main = package.relations("").get("officeDocument", ["ppt/presentation.xml"])[0]
    presentation = package.require(main)
    relations = package.relations(main)
    blocks: list[Block] = []
    for number, slide in enumerate(presentation.iterfind("{*}sldIdLst/{*}sldId"), 1):
        [name] = relations.get(reference(slide), [""])[:1]
        blocks += _slide(package, name, number)
    first = next((block.text for block in blocks if isinstance(block, Heading)), "")
    title, author = package.properties()
    return replace(compose_text(title or first or None, blocks), authors=split_names(author))


def _slide(package: Package, name: str, number: int) -> Iterator[Block]:
    slide = _Slide(package, name)
    notes = [
        block
        for part in slide.relations.get("notesSlide", ())
        for block in _Slide(package, part).blocks
    ]
    if slide.blocks or notes:
        yield Heading(1, slide.title)
    elif slide.title:  # a heading alone is no text
        yield Heading(1, "")
        yield Prose(table_cell(slide.title, 0).text, place=f"slide {number}")
    yield from (replace(block, place=f"slide {number}") for block in slide.blocks)
    yield from (replace(block, place=f"notes of slide {number}") for block in notes)


class _Slide:
    """Reads the shapes of a slide or of the page of its notes."""

    def __init__(self, package: Package, name: str) -> None:
        self.package = package
        self.relations = package.relations(name)
        self.title = ""
        self.blocks: list[Prose] = []
        root = package.xml(name)
        if root is not None:
            self.read(root)

    def read(self, parent: Element) -> None:
        for element in parent:
            name = local(element)
            if name == "sp":
                self.read_shape(element)
            elif name == "tbl":
                self.read_table(element)
            elif name in ("chart", "relIds"):
                for part in self.relations.get(reference(element, "dm", "id"), ()):
                    self.blocks += drawn_blocks(self.package, part)
            elif name not in ("Fallback", "pic"):
                self.read(element)

    def read_shape(self, shape: Element) -> None:
        place = shape.find("{*}nvSpPr/{*}nvPr/{*}ph")
        role = attribute(place, "type", "body" if place is not None else "")
        paragraphs = [one for body in shape.iterfind("{*}txBody") for one in body.iterfind("{*}p")]
        if role in ("title", "ctrTitle"):
            shown = " ".join(_SlideText(one).text for one in paragraphs)
            self.title = collapse(f"{self.title} {shown}")
        elif role not in _FURNITURE:
            shown_ones = [one for one in paragraphs if _SlideText(one).text.strip()]
            counts: Counter[int] = Counter()
            for one in shown_ones:
                marker = _number(one, counts)
                is_item = marker or one.find("{*}pPr/{*}buChar") is not None
                is_item = is_item or (role == "body" and len(shown_ones) > 1)
                kind: Kind = "item" if is_item else "prose"
                text = f"{marker} {_SlideText(one).text}"
                self.blocks.append(Prose(table_cell(text, 0).text, kind=kind))

    def read_table(self, table: Element) -> None:
        rows = [
            [
                table_cell(
                    " ".join(_SlideText(one).text for one in cell.iter("{*}p")),
                    0,
                    integer(attribute(cell, "gridSpan"), 1),
                    integer(attribute(cell, "rowSpan"), 1),
                )
                for cell in row.iterfind("{*}tc")
                if "1" not in (attribute(cell, "hMerge"), attribute(cell, "vMerge"))
            ]
            for row in table.iterfind("{*}tr")
        ]
        has_heads = attribute(table.find("{*}tblPr"), "firstRow") in ("1", "true")
        self.blocks += table_blocks(rows, int(has_heads and len(rows) > 1))


class _SlideText(ShownText):
    """What a paragraph shows."""

    def __init__(self, paragraph: Element) -> None:
        super().__init__()
        self.collect(paragraph)

    def collect(self, parent: Element) -> None:
        for element in parent:
            name = local(element)
            if name == "t":
                self.add(element.text or "")
            elif name == "br":
                self.add(" ")
            elif name in ("oMath", "oMathPara"):
                self.add(formulas.from_word(element))
            elif name != "Fallback":
                raised = attribute(element.find("{*}rPr"), "baseline", "0")
                self.level = (raised > "0") - raised.startswith("-") if raised != "0" else 0
                self.collect(element)
                self.level = 0


def _number(paragraph: Element, counts: Counter[int]) -> str:
    """Count a paragraph of a numbered list, and return its number; empty for others."""
    depth = integer(attribute(paragraph.find("{*}pPr"), "lvl"), 0) + 1
    numbering = paragraph.find("{*}pPr/{*}buAutoNum")
    if numbering is None:
        for above in [one for one in counts if one >= depth]:
            del counts[above]
        return ""
    kind = attribute(numbering, "type")
    style = next((style for name, style in _STYLES.items() if kind.startswith(name)), "1")
    end = ")" if "Paren" in kind else "." if kind.endswith("Period") else ""
    template = f"{'(' if kind.endswith('Both') else ''}%{depth}{end}"
    level = ListLevel(style, template, integer(attribute(numbering, "startAt"), 1))
    return next_marker({depth: level}, counts, depth)
