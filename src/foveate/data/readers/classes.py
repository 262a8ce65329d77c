"""Classification: cases of the European Court of Human Rights, and discharge summaries of MIMIC."""

from collections.abc import Iterator, Sequence
from os import PathLike
from typing import Any

from foveate.data.example import Example
from foveate.documents import Document

from .rows import Row, each, rows

_FACTS, _ARTICLES = (
    ("facts", "text"),
    ("violated_articles", "allegedly_violated_articles", "labels"),
)
_NOTE, _CODES = ("TEXT", "text"), ("LABELS", "labels", "label")


def ecthr(path: str | PathLike[str]) -> Iterator[Example]:
    """Read cases of ECtHR (Chalkidis et al., 2021): JSON Lines; facts are paragraphs.

    Labels are the violated articles, or, in files that have only those, the allegedly violated.
    """
    return each(case, rows(path))


def mimic(path: str | PathLike[str]) -> Iterator[Example]:
    """Read discharge summaries of MIMIC-III: CSV with `TEXT` and `LABELS`, parted by semicolons."""
    return each(_note, rows(path))


def case(place: str, row: Row) -> Iterator[Example]:
    """Make an example of a case of ECtHR, in its own form or LexGLUE's."""
    document = Document.from_sections("", [("", "\n\n".join(_first(row, _FACTS)))])
    labels = tuple(str(label) for label in _first(row, _ARTICLES))
    yield Example(str(row.get("case_id", place)), document, labels=labels)


def _note(place: str, row: Row) -> Iterator[Example]:
    labels = tuple(label.strip() for label in _first(row, _CODES).split(";") if label.strip())
    yield Example(
        row.get("HADM_ID") or place, Document.from_text(_first(row, _NOTE)), labels=labels
    )


def _first(row: Row, names: Sequence[str]) -> Any:
    """The first of the columns that the row has."""
    for name in names:
        if name in row:
            return row[name]
    raise KeyError(names[0])
