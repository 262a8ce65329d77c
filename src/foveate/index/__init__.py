"""A library of documents on disk: build it once, keep it up to date, and search it immediately."""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if not (find_spec("lance") and find_spec("pyarrow")):
    raise ImportError("a library on disk needs Lance: run `pip install 'foveate[index]'`")

if TYPE_CHECKING:
    from foveate.index.answers import LibrarySentence
    from foveate.index.build import Changes
    from foveate.index.library import Index, LibraryDocument
    from foveate.index.schema import DOCUMENT_COLUMNS, SENTENCE_COLUMNS
    from foveate.index.store import LibraryError, LockedError

# Names are loaded when they are first used: processes that only read files need no model.
_MODULE_OF = {
    "DOCUMENT_COLUMNS": "schema",
    "SENTENCE_COLUMNS": "schema",
    "Changes": "build",
    "Index": "library",
    "LibraryDocument": "library",
    "LibraryError": "store",
    "LibrarySentence": "answers",
    "LockedError": "store",
}

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


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)


def __dir__() -> list[str]:
    return [*globals(), *_MODULE_OF]
