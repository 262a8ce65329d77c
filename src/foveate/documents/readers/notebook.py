"""Jupyter notebooks: Markdown cells as text, code cells as code; outputs are left out."""

import json
import re
from collections.abc import Iterator
from typing import Any

from foveate.documents.blocks import (
    Block,
    MappedText,
    ParsedText,
    Prose,
    compose_text,
    lift_title,
)
from foveate.documents.metadata import names_in, parse_date
from foveate.documents.readers import markdown
from foveate.documents.structure import DocumentError

_FORMAT = re.compile(r'"nbformat"\s*:\s*\d')


def read(text: str) -> ParsedText:
    """Read headings and paragraphs; each knows its cell, counted from 1."""
    notebook = _load(text)
    cells = _cells(notebook)
    blocks: list[Block] = []
    for number, cell in enumerate(cells, start=1):
        blocks += _blocks(cell, f"cell {number}")
    lifted = lift_title(blocks)
    parsed = compose_text(lifted.title, lifted.blocks)
    metadata = notebook.get("metadata")
    fields = metadata if isinstance(metadata, dict) else {}
    # Quarto and MyST write front matter in the first cell.
    authors, date = markdown.find_metadata(_source(cells[0]) if isinstance(cells[0], dict) else "")
    parsed.authors = names_in(fields.get("authors")) or authors
    parsed.date = parse_date(fields.get("date")) or date
    return parsed


def looks_like_notebook(text: str) -> bool:
    """Return whether a text is JSON with the cells of a notebook."""
    return (
        text.lstrip()[:1] == "{"
        and '"cells"' in text
        and (_FORMAT.search(text[-2000:]) or _FORMAT.search(text)) is not None
    )


def _load(text: str) -> dict[str, Any]:
    try:
        notebook = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DocumentError(f"is not a notebook ({error}): save it again in Jupyter.") from error
    return notebook if isinstance(notebook, dict) else {}


def _cells(notebook: dict[str, Any]) -> list[Any]:
    cells = notebook.get("cells")
    if not isinstance(cells, list) or not cells:
        raise DocumentError("has no cells: give a notebook that Jupyter saved.")
    return cells


def _blocks(cell: Any, place: str) -> Iterator[Block]:
    kind = cell.get("cell_type") if isinstance(cell, dict) else None
    if kind == "markdown":
        yield from markdown.read_part(_source(cell), place)
    elif kind == "code":
        yield Prose(MappedText.from_text(_source(cell)), kind="code", place=place)


def _source(cell: dict[str, Any]) -> str:
    """Return the source of a cell, which is a string or a list of lines."""
    source = cell.get("source", "")
    return "".join(map(str, source)) if isinstance(source, list) else str(source)
