"""Corpora of documents to train on: unarXive's papers and HUPD's patent applications.

The examples have documents and labels, but no queries or references: abstracts are sections.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from os import PathLike
from typing import Any

from foveate.data.example import Example
from foveate.data.records import Record, check_text, parse_records, read_records
from foveate.documents import Document

_PLACEHOLDER = re.compile(r"\{\{(\w+):([^{}]*)\}\}")
_DEPTHS = {"section": 1, "subsection": 2, "subsubsection": 3}
_DEPTH_OF_PARAGRAPHS = 4
_BLANK_LINE = re.compile(r"\n\s*\n")


def read_unarxive(path: str | PathLike[str]) -> Iterator[Example]:
    """Read papers of unarXive (Saier et al., 2023), 2022 format: JSON Lines, or a folder of files.

    Formulas are their LaTeX, and citations are numbers in brackets, in the order of the
    bibliography; figures and tables are left out. The label is the discipline. Sections are nested
    by their types and numbers. A section without paragraphs of its own is not in a record; its
    subsections then belong to the section before, unless their numbers say that they do not.
    """
    return parse_records(_unarxive_record, read_records(path))


def read_hupd(path: str | PathLike[str]) -> Iterator[Example]:
    """Read patent applications of HUPD (Suzgun et al., 2023): a JSON file each, or a folder.

    The sections are the abstract, the background, the summary, the rest of the description and the
    claims. The label is the decision, such as "ACCEPTED".
    """
    return parse_records(_hupd_record, read_records(path))


def _unarxive_record(place: str, record: Record) -> Iterator[Example]:
    references = {
        **{name: f"[{number}]" for number, name in enumerate(record["bib_entries"], 1)},
        **{
            name: entry["latex"]
            for name, entry in record["ref_entries"].items()
            if entry["type"] == "formula"
        },
    }

    def readable(text: str | None) -> str:
        shown = _PLACEHOLDER.sub(lambda match: references.get(match[2], ""), text or "")
        return " ".join(shown.split())

    metadata, abstract = record["metadata"], record["abstract"]
    if isinstance(abstract, Mapping):
        abstract = abstract["text"]
    sections = [
        {"title": "Abstract", "text": readable(abstract)},
        *_nested_sections(record["body_text"], readable),
    ]
    yield Example(
        id=check_text(record["paper_id"], "paper_id"),
        document=Document.from_sections(readable(metadata["title"]), sections),
        labels=_label(record, "discipline"),
    )


def _nested_sections(
    paragraphs: Sequence[Record], readable: Callable[[str | None], str]
) -> list[dict[str, Any]]:
    """Group paragraphs by their sections, and put sections under those that they are part of."""
    top: list[dict[str, Any]] = []
    open_sections: list[tuple[int, str, dict[str, Any]]] = []  # depth, number, section
    for (title, number, kind), own in groupby(paragraphs, _section_key):
        text = "\n\n".join(readable(paragraph["text"]) for paragraph in own)
        section = {"title": readable(title), "text": text, "sections": []}
        depth = _DEPTHS.get(kind, _DEPTH_OF_PARAGRAPHS if title else 1)
        while open_sections and not _contains(open_sections[-1], depth, number):
            open_sections.pop()
        siblings = open_sections[-1][2]["sections"] if open_sections else top
        siblings.append(section)
        open_sections.append((depth, number, section))
    return top


def _section_key(paragraph: Record) -> tuple[str, str, str]:
    return (
        paragraph["section"] or "",
        paragraph["sec_number"] or "",
        paragraph["sec_type"] or "",
    )


def _contains(section: tuple[int, str, Any], depth: int, number: str) -> bool:
    """Return whether an open section can hold one of this depth and number, such as "2.1"."""
    open_depth, open_number, _ = section
    return open_depth < depth and ("." not in number or number.startswith(f"{open_number}."))


def _hupd_record(place: str, record: Record) -> Iterator[Example]:
    background, summary, rest = (
        _paragraphs(record[name]) for name in ("background", "summary", "full_description")
    )
    for part in filter(None, (background, summary)):
        rest = rest.replace(part, "", 1)  # the full description repeats them
    sections = [
        ("Abstract", _paragraphs(record["abstract"])),
        ("Background", background),
        ("Summary", summary),
        ("Description", rest),
        ("Claims", _paragraphs(record["claims"])),
    ]
    yield Example(
        id=str(record.get("application_number") or place),
        document=Document.from_sections(check_text(record["title"] or "", "title"), sections),
        labels=_label(record, "decision"),
    )


def _label(record: Record, name: str) -> tuple[str, ...]:
    """Return a field that may be missing or empty as labels."""
    return (check_text(record[name], name),) if record.get(name) else ()


def _paragraphs(text: str | None) -> str:
    """Reduce white space, except for the blank lines between paragraphs."""
    return "\n\n".join(" ".join(part.split()) for part in _BLANK_LINE.split(text or ""))
