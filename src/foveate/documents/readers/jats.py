"""JATS, the XML format of journals and PubMed Central."""

from foveate.documents.blocks import ParsedText, name_set
from foveate.documents.readers import xml

_JATS = xml.Vocabulary(
    title=("title-group", "article-title"),
    parts=name_set("abstract body"),
    sections=name_set("abstract sec"),
    heading="title",
    blocks=name_set("p verse-group"),
    breaks=name_set("break verse-line"),
    hidden=name_set(
        "back ref-list table-wrap table-wrap-group fig fig-group disp-formula disp-formula-group "
        "tex-math math fn supplementary-material media graphic code preformat "
        "sub-article response floats-group object-id"
    ),
    default_headings={"abstract": "Abstract"},
)


def read(text: str) -> ParsedText:
    """Read abstract and body; figures, tables, formulas and back matter are skipped."""
    return xml.read(text, _JATS)
