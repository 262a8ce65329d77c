"""TEI, the XML of scholarly editions and of GROBID."""

from foveate.documents.blocks import Reading, names
from foveate.documents.readers import xml

_TEI = xml.Vocabulary(
    title=("titleStmt", "title"),
    parts=names("abstract front body"),
    sections=names("abstract div div1 div2 div3 div4 div5 div6 div7"),
    heading="head",
    blocks=names("p ab lg item u"),
    breaks=names("lb l"),
    hidden=names("figure table formula note biblStruct listBibl titlePage speaker stage fw back"),
    names={"abstract": "Abstract"},
)


def read(text: str) -> Reading:
    """Abstract, front and body; figures, tables, formulas, notes and back matter are not prose."""
    return xml.read(text, _TEI)
