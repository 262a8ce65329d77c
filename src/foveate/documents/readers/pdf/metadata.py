"""The authors of a PDF and the date when it was published.

Both are in the file's properties (the "info dictionary") or in XMP, which is XML that is stored
uncompressed, so that it is found without knowing the file's structure. The dates in the properties
say when the file was made, which is something else; so does nearly every `dc:date` with a time.
"""

import re
from collections.abc import Iterator

import pypdfium2 as pdfium

from foveate.documents.blocks import collapse
from foveate.documents.metadata import clean_names, first_date, split_names
from foveate.documents.readers.office.package import Element, parse_xml
from foveate.documents.structure import DocumentError

_START, _END = b"<x:xmpmeta", b"</x:xmpmeta>"
_MAX_PACKETS = 20  # that are looked at: pictures have XMP too
_MAX_PACKET = 1_000_000  # bytes
_RDF = "{http://www.w3.org/1999/02/22-rdf-syntax-ns#}"
_DC = "{http://purl.org/dc/elements/1.1/}"
_PRODUCER = "{http://ns.adobe.com/pdf/1.3/}Producer"
_PRISM = re.compile(r"\{http://prismstandard\.org/namespaces/[^}]*\}(publicationDate|coverDate)")
_DAY = re.compile(r"[\d-]{4,10}")


def read_metadata(document: pdfium.PdfDocument, data: bytes) -> tuple[tuple[str, ...], str | None]:
    """Return the authors, and the date in ISO 8601 or None.

    Args:
        document: The document.
        data: The file that it was opened from.
    """
    stated = split_names(_property(document, "Author"))
    xmp = _find_xmp(data, _property(document, "Producer"))
    if xmp is None:
        return stated, None
    names = [collapse(name.text or "") for name in xmp.iterfind(f".//{_DC}creator//{_RDF}li")]
    authors = clean_names(names) if len(names) > 1 else stated or split_names("".join(names))
    return authors or stated, first_date(_dates(xmp))


def _property(document: pdfium.PdfDocument, name: str) -> str:
    return collapse(str(document.get_metadata_value(name)).replace("\0", ""))


def _find_xmp(data: bytes, producer: str) -> Element | None:
    """Return the XMP of the document itself, which names the same producer as its properties."""
    found = None
    start = end = 0
    for _ in range(_MAX_PACKETS):
        start = data.find(_START, end)
        end = data.find(_END, start) + len(_END)
        if start < 0 or end < start:
            break
        if end - start > _MAX_PACKET:
            continue
        try:
            xmp = parse_xml(data[start:end], "XMP")
        except DocumentError:
            continue
        if dict(_values(xmp)).get(_PRODUCER, "") == producer:
            found = xmp
    return found


def _dates(xmp: Element) -> Iterator[str]:
    """Yield the dates that publishers and authors give, as opposed to programs."""
    for name, value in _values(xmp):
        if _PRISM.fullmatch(name):
            yield value
    for name, value in _values(xmp):
        if name == f"{_DC}date" and _DAY.fullmatch(value):  # a program would give the time
            yield value


def _values(xmp: Element) -> Iterator[tuple[str, str]]:
    """Yield the name and the value of each property, which is an element or an attribute."""
    for description in xmp.iter(f"{_RDF}Description"):
        for name, value in description.items():
            yield name, collapse(value)
        for element in description:
            yield element.tag, collapse("".join(element.itertext()))
