"""TEI, the XML format of scholarly editions and GROBID."""

from foveate.documents.blocks import ParsedText, name_set
from foveate.documents.readers import xml

_TEI = xml.Vocabulary(
    title=("titleStmt", "title"),
    parts=name_set("abstract front body listBibl"),
    sections=name_set("abstract div div1 div2 div3 div4 div5 div6 div7 listBibl"),
    heading="head",
    blocks=name_set("p ab lg item u note figDesc"),
    kinds={"item": "item", "figure": "caption", "note": "footnote", "listBibl": "reference"},
    floats=name_set("figure table note"),
    labels=frozenset({("figure", "head"), ("table", "head")}),
    terms=frozenset(),
    rows=name_set("row"),
    cells=name_set("cell"),
    entries=name_set("biblStruct bibl biblFull"),
    separators={
        "biblStruct": ", ",
        "analytic": ", ",
        "monogr": ", ",
        "imprint": ", ",
        "persName": " ",
    },
    openings={},
    breaks=name_set("lb l"),
    hidden=name_set("formula sourceDesc titlePage speaker stage fw idno annotation"),
    default_headings={"abstract": "Abstract", "listBibl": "References"},
)


def read(text: str) -> ParsedText:
    """Read abstract, front, body, captions, tables, notes and references.

    Formulas, stage directions and what else stands in the back matter are skipped.
    """
    return xml.read(text, _TEI)
