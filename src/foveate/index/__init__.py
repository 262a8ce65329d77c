"""A library of documents on disk: build it once, keep it up to date, and search it immediately."""

from importlib.util import find_spec

if not (find_spec("lancedb") and find_spec("pyarrow")):
    raise ImportError("a library on disk needs LanceDB: run `pip install 'foveate[index]'`")

from foveate.index.answers import LibrarySentence
from foveate.index.build import Changes
from foveate.index.library import Index, LibraryDocument
from foveate.index.lock import LockedError
from foveate.index.schema import DOCUMENT_COLUMNS, SENTENCE_COLUMNS
from foveate.index.store import LibraryError

__all__ = [
    "DOCUMENT_COLUMNS",
    "SENTENCE_COLUMNS",
    "Changes",
    "Index",
    "LibraryDocument",
    "LibraryError",
    "LibrarySentence",
    "LockedError",
]
