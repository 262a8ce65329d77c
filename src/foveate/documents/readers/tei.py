"""TEI, the XML format of scholarly editions and GROBID."""

from foveate.documents.blocks import ParsedText, name_set
from foveate.documents.readers import xml

_TEI = xml.Vocabulary(
    title=("titleStmt", "title"),
    parts=name_set("abstract front body"),
    sections=name_set("abstract div div1 div2 div3 div4 div5 div6 div7"),
    heading="head",
    blocks=name_set("p ab lg item u"),
    breaks=name_set("lb l"),
    hidden=name_set(
        "figure table formula note biblStruct listBibl titlePage speaker stage fw back"
    ),
    default_headings={"abstract": "Abstract"},
)


def read(text: str) -> ParsedText:
    """Read abstract, front and body; figures, tables, formulas and notes are skipped."""
    return xml.read(text, _TEI)
