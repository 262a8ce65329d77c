"""Tables with a row for each text, separated by commas, semicolons, tabs or bars."""

import csv
import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from io import StringIO
from itertools import chain, dropwhile, islice

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
_SEPARATOR = re.compile(r"\s*sep=(.)[ \t]*\r?\n", re.IGNORECASE)  # of Excel
_PROSE = 4  # words in a cell of a column of texts, on average
_VALUE = re.compile(r"[\W\d]+|.*[.!?。！？]\s*", re.DOTALL)  # numbers, dates and sentences
_LONGEST_NAME = 60  # characters of the name of a column


def split(text: str) -> Iterator[Member]:
    """Yield a text, with its title, authors and date, for each row.

    The first row names the columns if it looks so; lines before it that have fewer cells become a
    text of their own. The texts are those of a column with a usual name, such as "text" or
    "abstract", or else of the column whose cells are the longest; the cells of other columns that
    hold running text follow. Where no column has a usual name, those that hold none end the text,
    each with the name of its column. The rows are counted as a spreadsheet counts them.
    """
    csv.field_size_limit(2**31 - 1)
    separator = _SEPARATOR.match(text)
    body = text[separator.end() :] if separator else text
    delimiter = separator[1] if separator else _delimiter(body)
    reader = csv.reader(StringIO(body, newline=""), delimiter=delimiter)
    rows = enumerate(reader, 1 + bool(separator))
    try:
        sample = list(islice(rows, _SAMPLED))
        widths = Counter(len(row) for _, row in sample if len(row) > 1)
        width = widths.most_common(1)[0][0] if widths else 1
        table = list(dropwhile(lambda row: len(list(filter(None, row[1]))) < min(width, 2), sample))
        preamble = sample[: len(sample) - len(table)]
        if said := "\n\n".join(" ".join(filter(None, row)) for _, row in preamble).strip():
            yield _member(preamble[0][0], {"text": said})
        names = table[0][1] if table and _are_names([row for _, row in table]) else []
        table = table[bool(names) :]
        text_column = find_field(names, TEXT_FIELDS)
        is_named = text_column is not None
        lengths = _lengths([row for _, row in table])
        if text_column is None:
            text_column = lengths.index(max(lengths)) if lengths else 0
        columns = {
            "title": find_field(names, TITLE_FIELDS),
            "authors": find_field(names, AUTHOR_FIELDS),
            "date": find_field(names, DATE_FIELDS),
        }
        columns = {name: column for name, column in columns.items() if column != text_column}
        for number, row in chain(table, rows):
            texts: list[str] = []
            values: list[str] = []
            for column, cell in enumerate(row):
                is_text = column < len(lengths) and lengths[column] >= _PROSE
                if not cell.strip() or column in columns.values():
                    continue
                is_chosen = column == text_column and (is_named or not names)
                if is_chosen or is_text:
                    texts.append(cell)
                elif not is_named:
                    name = names[column].strip() if column < len(names) else ""
                    values.append(f"{name}: {cell}" if name else cell)
            said = "\n\n".join([*texts, "; ".join(values)] if values else texts)
            if said.strip():
                others = {name: _cell(row, column) for name, column in columns.items()}
                yield _member(number, others | {"text": said})
    except csv.Error as error:
        raise DocumentError(
            f"is not a table of texts ({error}, line {reader.line_num}): correct it there, or name "
            "another format."
        ) from error


def _member(number: int, record: dict[str, str]) -> Member:
    return Member(f":{number}", json.dumps(record).encode(), "json", f"row {number}")


def _delimiter(text: str) -> str:
    """Return the delimiter that most lines hold equally often; csv.Sniffer may take minutes."""
    lines = text[:_SNIFFED].strip().split("\n")[:20]
    counts = {
        one: Counter(filter(None, (line.count(one) for line in lines))) for one in _DELIMITERS
    }
    return max(
        _DELIMITERS, key=lambda one: (max(counts[one].values(), default=0), lines[0].count(one))
    )


def _are_names(rows: Sequence[Sequence[str]]) -> bool:
    """Return whether the first row names the columns."""
    first, others = rows[0], rows[1:]
    fields = (*TEXT_FIELDS, *TITLE_FIELDS, *AUTHOR_FIELDS, *DATE_FIELDS)
    if any(_VALUE.fullmatch(name) or len(name) > _LONGEST_NAME for name in first if name):
        return False
    if find_field(first, fields) is not None or not others:
        return True
    columns = zip(first, *others, strict=False)
    return any(
        all(_VALUE.fullmatch(cell) for cell in cells if cell)
        or sum(map(len, cells)) > 2 * len(name) * len(cells)
        for name, *cells in columns
    )


def _lengths(rows: Sequence[Sequence[str]]) -> list[float]:
    """Return the number of words in each column, on average."""
    words: Counter[int] = Counter()
    for row in rows:
        for column, cell in enumerate(row):
            words[column] += len(cell.split()) + len(cell) // 1_000  # or without spaces
    return [words[column] / len(rows) for column in range(max(words, default=-1) + 1)]


def _cell(row: Sequence[str], column: int | None) -> str:
    return row[column] if column is not None and column < len(row) else ""
