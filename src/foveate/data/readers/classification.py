"""Classification: cases of the European Court of Human Rights, and discharge notes of MIMIC."""

import ast
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from foveate.data.example import Example
from foveate.data.records import Record, check_texts, parse_records, read_records
from foveate.documents import Document

_FACTS = ("facts", "text")
_ARTICLES = ("violated_articles", "allegedly_violated_articles", "labels")
_NOTE = ("TEXT", "text")
_CODES = ("LABELS", "labels", "label")
_PARAGRAPHS = ("paragraphs", "text")
_NO_ARGUMENT = "O"
_SPACE_BEFORE = re.compile(r" (?=[.,:;)\]’'])")
_SPACE_AFTER = re.compile(r"(?<=[(\[]) ")


def ecthr_record(place: str, record: Record) -> Iterator[Example]:
    """Parse a case of ECtHR (Chalkidis et al., 2021), as published or as in LexGLUE.

    Each fact is a paragraph. The labels are the violated articles or, in files without them, the
    allegedly violated ones.
    """
    yield Example(
        id=str(record.get("case_id", place)),
        document=Document.from_sections("", [("", "\n\n".join(_first_of(record, _FACTS)))]),
        labels=tuple(str(label) for label in _first_of(record, _ARTICLES)),
    )


def ecthr_arg_record(place: str, record: Record) -> Iterator[Example]:
    """Parse a case of ECtHR-ARG (Habernal et al., 2023).

    Each paragraph is a section; its classes, which are the types of the arguments in it, are in
    `section_labels`.
    """
    paragraphs, labels = check_texts(_first_of(record, _PARAGRAPHS), "paragraphs"), record["labels"]
    if not isinstance(labels, list) or len(labels) != len(paragraphs):
        raise ValueError(f"its {len(paragraphs)} paragraphs need a list of as many lists of labels")
    types = [check_texts(own or [], "the labels of a paragraph") for own in labels]
    visible = [(text, own) for text, own in zip(paragraphs, types, strict=True) if text.strip()]
    yield Example(
        id=str(record.get("case_id", place)),
        document=Document.from_sections("", [("", " ".join(text.split())) for text, _ in visible]),
        section_labels=tuple(
            tuple(label for label in dict.fromkeys(own) if label != _NO_ARGUMENT)
            for _, own in visible
        ),
    )


def read_cases(path: Path) -> Iterator[tuple[str, Record]]:
    """Read the cases of ECtHR-ARG, in either of two forms.

    - as published: a `.csv` file per case, or a folder of them such as `train/argType`, with a
      paragraph per line: its `tokens` and their `labels` ("B-…", "I-…" or "O"), separated by a tab.
      The types have their published, German names;
    - as HAT re-formulated it (Chalkidis et al., 2022): JSON Lines with a list of `paragraphs` (or
      `text`) and a list of `labels` for each; seven types with English names.
    """
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    tables = [file for file in files if file.name.removesuffix(".gz").endswith(".csv")]
    if not tables:
        yield from read_records(path)
    for table in tables:
        rows = list(parse_records(_paragraph_record, read_records(table)))
        paragraphs, labels = [text for text, _ in rows], [own for _, own in rows]
        yield (
            str(table),
            {"case_id": table.name.partition(".")[0], "paragraphs": paragraphs, "labels": labels},
        )


def _paragraph_record(place: str, record: Record) -> Iterator[tuple[str, list[str]]]:
    """Parse the tokens of a paragraph and their labels, which are written as lists of Python."""
    try:
        tokens = check_texts(ast.literal_eval(record["tokens"]), "tokens")
        labels = check_texts(ast.literal_eval(record["labels"]), "labels")
    except SyntaxError as error:
        raise ValueError(f"not a list of tokens: {error.msg}") from error
    if len(tokens) != len(labels):
        raise ValueError(f"{len(tokens)} tokens have {len(labels)} labels")
    text = _SPACE_AFTER.sub("", _SPACE_BEFORE.sub("", " ".join(tokens)))
    yield text, [label.removeprefix("B-").removeprefix("I-") for label in labels]


def mimic_record(place: str, record: Record) -> Iterator[Example]:
    """Parse a note of MIMIC-III, with `TEXT` and semicolon-separated `LABELS`."""
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
