"""Corpora without a task, on which HDT was pretrained (HDT, 4.2): unarXive and HUPD."""

import re
from itertools import groupby

from foveate.data.records import Record
from foveate.documents import Document

_PLACEHOLDER = re.compile(r"\{\{(\w+):([^{}]+)\}\}")


def unarxive_document(record: Record) -> Document:
    """Read a paper of unarXive (Saier et al., 2023): the abstract and the sections of `body_text`.

    Formulas are put back in LaTeX; the marks of citations, figures and tables are left out.
    """
    entries = record.get("ref_entries") or {}

    def clean(text: str) -> str:
        return _PLACEHOLDER.sub(lambda mark: entries.get(mark[2], {}).get("latex") or "", text)

    paragraphs = groupby(record["body_text"], lambda part: (part["sec_number"], part["section"]))
    sections = [
        (title or "", "\n\n".join(clean(part["text"]).strip() for part in parts))
        for (_, title), parts in paragraphs
    ]
    abstract = (record.get("abstract") or {}).get("text") or ""
    title = (record.get("metadata") or {}).get("title") or ""
    return _with_sections(title, [("Abstract", clean(abstract)), *sections])


def hupd_document(record: Record) -> Document:
    """Read a patent application of HUPD (Suzgun et al., 2022).

    `full_description` holds the background and the summary, too: where it does, word by word, they
    are not read twice.
    """
    rest = record["full_description"]
    for name in ("background", "summary"):
        rest = rest.replace(record.get(name) or "\0", "")
    names = ("abstract", "background", "summary")
    sections = [(name.capitalize(), record.get(name) or "") for name in names]
    sections += [("Description", rest), ("Claims", record.get("claims") or "")]
    return _with_sections(record.get("title") or "", sections)


def _with_sections(title: str, sections: list[tuple[str, str]]) -> Document:
    """Make a document of the sections that have text."""
    return Document.from_sections(
        " ".join(title.split()), [part for part in sections if part[1].strip()]
    )
