"""Classification: cases of the European Court of Human Rights, and discharge notes of MIMIC."""

from collections.abc import Iterator, Sequence
from os import PathLike
from typing import Any

from foveate.data.example import Example
from foveate.data.records import Record, parse_records, read_records
from foveate.documents import Document

_FACTS = ("facts", "text")
_ARTICLES = ("violated_articles", "allegedly_violated_articles", "labels")
_NOTE = ("TEXT", "text")
_CODES = ("LABELS", "labels", "label")


def read_ecthr(path: str | PathLike[str]) -> Iterator[Example]:
    """Read cases of ECtHR (Chalkidis et al., 2021): JSON Lines, each fact a paragraph.

    The labels are the violated articles or, in files without them, the allegedly violated ones.
    """
    return parse_records(ecthr_record, read_records(path))


def read_mimic(path: str | PathLike[str]) -> Iterator[Example]:
    """Read discharge notes of MIMIC-III: CSV with `TEXT` and semicolon-separated `LABELS`."""
    return parse_records(_mimic_record, read_records(path))


def ecthr_record(place: str, record: Record) -> Iterator[Example]:
    """Parse a case of ECtHR, as published or as in LexGLUE."""
    yield Example(
        id=str(record.get("case_id", place)),
        document=Document.from_sections("", [("", "\n\n".join(_first_of(record, _FACTS)))]),
        labels=tuple(str(label) for label in _first_of(record, _ARTICLES)),
    )


def _mimic_record(place: str, record: Record) -> Iterator[Example]:
    labels = (label.strip() for label in _first_of(record, _CODES).split(";"))
    yield Example(
        id=record.get("HADM_ID") or place,
        document=Document.from_text(_first_of(record, _NOTE)),
        labels=tuple(label for label in labels if label),
    )


def _first_of(record: Record, names: Sequence[str]) -> Any:
    """Return the value of the first of these fields that the record has."""
    for name in names:
        if name in record:
            return record[name]
    raise KeyError(names[0])
