"""The parts of DOCX, ODT and EPUB files: XML and other files in a ZIP archive."""

import posixpath
import zipfile
from io import BytesIO
from typing import Any

from lxml import etree

from foveate.documents.archives import archive_errors, check_archive
from foveate.documents.structure import DocumentError

Element = Any  # of lxml, which has no types

MAX_MARKUP = 5_000_000  # "<" and "=" of a part; each may cost 170 bytes of memory


class Package:
    """A ZIP archive whose parts are read by name.

    Args:
        data: The archive.
        kind: What it should be, in messages, such as "DOCX".

    Raises:
        DocumentError: It is damaged, or a ZIP bomb.
    """

    def __init__(self, data: bytes, kind: str) -> None:
        self.kind = kind
        with archive_errors(f"{kind} file", "save it again"):
            self.archive = zipfile.ZipFile(BytesIO(data))
            check_archive(self.archive, kind)
        self.names = frozenset(self.archive.namelist())

    def read(self, name: str) -> bytes | None:
        """Return a part, or None if there is no such part."""
        if name not in self.names:
            return None
        with archive_errors(f"{self.kind} file", "save it again"):
            return self.archive.read(name)

    def xml(self, name: str) -> Element | None:
        """Return the root element of an XML part, or None if there is no such part."""
        data = self.read(name)
        return None if data is None else parse_xml(data, f"{self.kind} ({name})")

    def require(self, name: str) -> Element:
        """Return the root element of a part that every package of this kind has."""
        root = self.xml(name)
        if root is None:
            raise DocumentError(
                f"cannot be read as {self.kind}: it has no part {name!r:.80}; check that it is "
                f"{self.kind}, or open it and save it again."
            )
        return root


def parse_xml(data: bytes, kind: str) -> Element:
    """Parse XML that may not declare entities, which could expand without end.

    Args:
        data: The XML.
        kind: What it should be, in messages.

    Raises:
        DocumentError: It is not well-formed, too large, or declares entities.
    """
    if b"<!ENTITY" in data or b"<\0!\0E\0N\0T\0I\0T\0Y" in data:
        raise DocumentError("declares XML entities, which is refused: write them out.")
    check_size(data, kind)
    parser = etree.XMLParser(
        resolve_entities=False,
        no_network=True,
        load_dtd=False,
        remove_comments=True,
        remove_pis=True,
        huge_tree=False,
    )
    try:
        return etree.fromstring(data, parser)
    except etree.XMLSyntaxError as error:
        reason = " ".join(error.msg.split())  # some have lines
        raise DocumentError(
            f"cannot be read as {kind} ({reason:.100}): check that it is that, or open it and "
            "save it again."
        ) from error


def check_size(data: bytes, kind: str) -> None:
    """Reject a part with more markup than there is memory for."""
    if data.count(b"<") + data.count(b"=") > MAX_MARKUP:
        raise DocumentError(f"has more markup than {kind} holds: split it into smaller files.")


def local(element: Element) -> str:
    """Return the name of an element without its namespace; entities have none."""
    tag = element.tag
    return tag[tag.rfind("}") + 1 :] if isinstance(tag, str) else ""


def attribute(element: Element | None, name: str, default: str = "") -> str:
    """Return an attribute by its name without namespace."""
    if element is None:
        return default
    for key, value in element.items():
        if key == name or key.endswith("}" + name):
            return str(value)
    return default


def integer(text: str, default: int) -> int:
    """Return a number, or the default for what is not a number or not of a sane size."""
    digits = text.strip()
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 7 else default


def resolve(base: str, href: str) -> str:
    """Return the name of the part to which another part, given by its name, refers."""
    if href.startswith("/"):
        return posixpath.normpath(href[1:])
    return posixpath.normpath(posixpath.join(posixpath.dirname(base), href))
