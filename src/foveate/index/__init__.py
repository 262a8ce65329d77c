"""A library of documents on disk: build it once, keep it up to date, and search it immediately."""

from importlib.util import find_spec

if not (find_spec("lance") and find_spec("pyarrow")):
    raise ImportError("a library on disk needs Lance: run `pip install 'foveate[index]'`")

from foveate.index.build import Changes
from foveate.index.lance import LockedError
from foveate.index.library import Index
from foveate.index.schema import DOCUMENT_COLUMNS, SENTENCE_COLUMNS
from foveate.index.state import LibraryDocument, LibraryError

__all__ = [
    "DOCUMENT_COLUMNS",
    "SENTENCE_COLUMNS",
    "Changes",
    "Index",
    "LibraryDocument",
    "LibraryError",
    "LockedError",
]
