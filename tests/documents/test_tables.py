"""Tables as sentences, whatever format they are written in."""

from hypothesis import given
from hypothesis import strategies as st

from foveate.documents.blocks import MappedText
from foveate.documents.tables import Cell, table_blocks


def cells(*rows):
    """Cells written one after another, ten characters apart."""
    number = 0
    table = []
    for row in rows:
        table.append([])
        for text in row:
            mapped = MappedText()
            mapped.add(text.lstrip("#"), 10 * number, 10 * number + len(text.lstrip("#")))
            table[-1].append(Cell(mapped, is_head=text.startswith("#")))
            number += 1
    return table


def said(table, num_head_rows=0):
    return [str(block.text) for block in table_blocks(table, num_head_rows)]


def test_a_later_row_of_heads_replaces_the_first():
    table = cells(["#a", "#b"], ["1", "2"], ["#c", "#d"], ["3", "4"])
    assert said(table) == ["a: 1; b: 2", "c: 3; d: 4"]


def test_head_rows_are_joined_and_a_repeated_head_is_said_once():
    table = cells(["A", "B"], ["A", "b"], ["1", "2"])
    assert said(table, num_head_rows=2) == ["A: 1; B b: 2"]


def test_a_row_with_more_cells_than_heads():
    assert said(cells(["#a", "#b"], ["1", "", "3"])) == ["a: 1; 3"]


def test_a_row_that_is_one_cell_is_a_heading_of_its_own():
    table = cells(["#a", "#b"], ["Fish"], ["1", "2"])
    table[1][0].columns = 2
    assert said(table) == ["Fish", "a: 1; b: 2"]


SPANS = st.sampled_from([1, 1, 1, 2, 3, 0, 10**5])
TABLES = st.lists(st.lists(st.tuples(st.booleans(), SPANS, SPANS), max_size=5), max_size=6)


@given(TABLES, st.integers(0, 2))
def test_rows_lie_in_the_source_in_order(shapes, num_head_rows):
    table = []
    at = 0
    for row in shapes:
        table.append([])
        for is_head, columns, rows in row:
            text = MappedText()
            text.add("cell", at, at + 4)
            table[-1].append(Cell(text, is_head, columns, rows))
            at += 10
    end = 0
    for block in table_blocks(table, num_head_rows):
        shown = str(block.text)
        spans = [block.text.source_span(i, i + 1) for i in range(len(shown))]
        assert end <= spans[0][0] < spans[-1][1] <= at
        assert [first for first, _ in spans] == sorted(first for first, _ in spans)
        end = spans[-1][1]
