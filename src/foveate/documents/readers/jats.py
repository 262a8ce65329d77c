"""JATS, the XML of journals and of PubMed Central."""

from foveate.documents.blocks import Reading, names
from foveate.documents.readers import xml

_JATS = xml.Vocabulary(
    title=("title-group", "article-title"),
    parts=names("abstract body"),
    sections=names("abstract sec"),
    heading="title",
    blocks=names("p verse-group"),
    breaks=names("break verse-line"),
    hidden=names(
        "back ref-list table-wrap table-wrap-group fig fig-group disp-formula disp-formula-group "
        "tex-math math fn supplementary-material media graphic code preformat "
        "sub-article response floats-group object-id"
    ),
    names={"abstract": "Abstract"},
)


def read(text: str) -> Reading:
    """Abstract and body; figures, tables, formulas and back matter are not prose."""
    return xml.read(text, _JATS)
