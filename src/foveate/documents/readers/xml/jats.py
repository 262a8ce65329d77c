"""JATS, the XML format of journals and PubMed Central."""

from foveate.documents.blocks import ParsedText, name_set
from foveate.documents.readers import xml

_JATS = xml.Vocabulary(
    title=("title-group", "article-title"),
    parts=name_set("abstract body app glossary fn-group ref-list floats-group"),
    sections=name_set("abstract sec app glossary ref-list"),
    heading="title",
    blocks=name_set("p verse-group"),
    kinds={
        "list-item": "item",
        "caption": "caption",
        "fig": "caption",
        "table-wrap": "caption",
        "fn": "footnote",
        "table-wrap-foot": "footnote",
        "ref": "reference",
    },
    floats=name_set("fig fig-group table-wrap table-wrap-group fn"),
    labels=frozenset(
        (parent, "label") for parent in ("fig", "table-wrap", "fn", "ref", "list-item")
    ),
    terms=name_set("term"),
    rows=name_set("tr"),
    cells=name_set("td th"),
    entries=name_set("mixed-citation element-citation nlm-citation citation"),
    separators={
        "element-citation": ", ",
        "nlm-citation": ", ",
        "person-group": ", ",
        "name": " ",
    },
    openings={"lpage": "–"},
    breaks=name_set("break verse-line"),
    hidden=name_set(
        "disp-formula disp-formula-group tex-math annotation supplementary-material media graphic "
        "code preformat sub-article response object-id pub-id"
    ),
    default_headings={"abstract": "Abstract", "ref-list": "References"},
)


def read(text: str) -> ParsedText:
    """Read abstract, body, appendices, captions, tables, footnotes and references.

    Displayed formulas and supplementary material are skipped.
    """
    return xml.read(text, _JATS)
