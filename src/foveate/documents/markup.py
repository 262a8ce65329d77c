"""XML of all formats, which is parsed by lxml."""

from typing import Any

from lxml import etree

from foveate.documents.structure import DocumentError

Element = Any  # of lxml, which has no types

MAX_MARKUP = 5_000_000  # "<" and "=" of a part; each may cost 170 bytes of memory


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
