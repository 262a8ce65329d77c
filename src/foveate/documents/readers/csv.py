"""Tables with a row for each text, separated by commas, semicolons, tabs or bars."""

import csv
import json
from collections.abc import Iterator
from io import StringIO
from itertools import chain, islice

from foveate.documents.formats import Member
from foveate.documents.readers.records import (
    AUTHOR_FIELDS,
    DATE_FIELDS,
    TEXT_FIELDS,
    TITLE_FIELDS,
    find_field,
)
from foveate.documents.structure import DocumentError

_DELIMITERS = ",;\t|"
_SNIFFED = 8_192  # characters
_SAMPLED = 200  # rows that tell which column holds the texts


def split(text: str) -> Iterator[Member]:
    """Yield a text, with its title, authors and date, for each row.

    The first row names the columns. The texts are those of a column with a usual name, such as
    "text" or "abstract", or else of the column whose cells are the longest. The rows are counted as
    a spreadsheet counts them, so that the first text is in row 2.
    """
    csv.field_size_limit(2**31 - 1)
    reader = csv.reader(StringIO(text, newline=""), delimiter=_delimiter(text))
    try:
        names = next(reader, [])
        sample = list(islice(reader, _SAMPLED))
        text_column = find_field(names, TEXT_FIELDS)
        if text_column is None:
            text_column = _longest_column(sample)
        columns = {
            "title": find_field(names, TITLE_FIELDS),
            "authors": find_field(names, AUTHOR_FIELDS),
            "date": find_field(names, DATE_FIELDS),
        }
        columns = {name: column for name, column in columns.items() if column != text_column}
        for number, row in enumerate(chain(sample, reader), 2):
            body = _cell(row, text_column)
            if body.strip():
                others = {name: _cell(row, column) for name, column in columns.items()}
                record = json.dumps(others | {"text": body}).encode()
                yield Member(f":{number}", record, "json", f"row {number}")
    except csv.Error as error:
        raise DocumentError(
            f"is not a table of texts ({error}, line {reader.line_num}): correct it there, or name "
            "another format."
        ) from error


def _delimiter(text: str) -> str:
    """Return the most frequent delimiter of the first row; csv.Sniffer may take minutes."""
    header = text[:_SNIFFED].lstrip().partition("\n")[0]
    return max(_DELIMITERS, key=header.count)


def _longest_column(rows: list[list[str]]) -> int:
    """Return the column that holds the most characters."""
    lengths = [0] * (max(map(len, rows), default=0) or 1)
    for row in rows:
        for column, cell in enumerate(row):
            lengths[column] += len(cell)
    return lengths.index(max(lengths))


def _cell(row: list[str], column: int | None) -> str:
    return row[column] if column is not None and column < len(row) else ""
