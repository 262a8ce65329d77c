"""TEI, the XML format of scholarly editions and GROBID."""

from collections.abc import Iterator

from foveate.documents.blocks import ParsedText
from foveate.documents.markup import Element
from foveate.documents.metadata import clean_names, first_date
from foveate.documents.readers import xml

_TEI = xml.Vocabulary.load("tei")


def read(text: str) -> ParsedText:
    """Read abstract, front, body, captions, tables, notes and references.

    The rest of the back matter is skipped.
    """
    parsed, root = xml.read(text, _TEI)
    header = root.find("teiHeader")
    if header is not None:
        parsed.authors = clean_names(_authors(header))
        parsed.date = first_date(_dates(header))
    return parsed


def _authors(header: Element) -> Iterator[str]:
    """Yield the authors of the title or, as GROBID records them, of the article in its source."""
    file = "fileDesc"
    authors = header.findall(f"{file}/titleStmt/author")
    for author in authors or header.findall(f"{file}/sourceDesc/biblStruct/analytic/author"):
        parts = author.findall("persName/forename") + author.findall("persName/surname")
        names = author.findall("persName") + author.findall("orgName")
        yield " ".join("".join(part.itertext()) for part in parts or names[:1] or [author])


def _dates(header: Element) -> Iterator[str | None]:
    for date in (
        *header.iterfind("fileDesc/publicationStmt/date"),
        *header.iterfind("fileDesc/sourceDesc/biblStruct/monogr/imprint/date[@type='published']"),
    ):
        yield date.get("when")
        yield "".join(date.itertext())
