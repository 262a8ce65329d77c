"""The parts of the files of Office, ODT and EPUB: XML and other files in a ZIP archive."""

import posixpath
import zipfile
from collections import defaultdict
from io import BytesIO

from foveate.documents.archives import archive_errors, check_archive
from foveate.documents.markup import Element, attribute, parse_xml
from foveate.documents.structure import DocumentError


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

    def relations(self, name: str) -> dict[str, list[str]]:
        """Return the names of the parts that a part refers to, by their role and by identifier."""
        folder, _, file = name.rpartition("/")
        relations: defaultdict[str, list[str]] = defaultdict(list)
        root = self.xml(f"{folder}/_rels/{file}.rels".removeprefix("/"))
        for relation in () if root is None else root:
            role = attribute(relation, "Type").rpartition("/")[2]
            for key in (role, attribute(relation, "Id")):
                relations[key].append(resolve(name, attribute(relation, "Target")))
        return relations

    def properties(self) -> tuple[str, str]:
        """Return the title and the author that the properties of a file of Office state."""
        core = self.xml("docProps/core.xml")
        if core is None:
            return "", ""
        return core.findtext("{*}title") or "", core.findtext("{*}creator") or ""


def reference(element: Element, *names: str) -> str:
    """Return the identifier of the part to which an element refers, in attributes such as r:id."""
    endings = tuple(f"}}{name}" for name in names or ("id",))
    return next((str(value) for key, value in element.items() if key.endswith(endings)), "")


def resolve(base: str, href: str) -> str:
    """Return the name of the part to which another part, given by its name, refers."""
    if href.startswith("/"):
        return posixpath.normpath(href[1:])
    return posixpath.normpath(posixpath.join(posixpath.dirname(base), href))
