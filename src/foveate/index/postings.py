"""The table of terms: which texts hold each term, and how often."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from foveate.index.schema import KINDS
from foveate.tasks.terms import terms


class PostingsBuilder:
    """How often each term occurs in which texts."""

    def __init__(self) -> None:
        self._terms: list[str] = []  # of all texts, one after the other
        self._texts: list[tuple[int, int, int, int]] = []  # kind, document, position, terms

    def add(self, kind: int, number: int, position: int, text: str) -> int:
        """Note the terms of a text, and return how many there are in all."""
        found = terms(text)
        self._terms += found
        self._texts.append((kind, number, position, len(found)))
        return len(found)

    def table(self, schema: pa.Schema) -> pa.Table:
        """Return a row for each term and kind of text, sorted."""
        encoded = pa.array(self._terms, pa.string()).dictionary_encode()
        order = pc.sort_indices(encoded.dictionary).to_numpy().astype(np.int64)
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        kind, number, position, num_terms = np.array(self._texts, np.int64).reshape(-1, 4).T
        text = np.repeat(np.arange(len(kind)), num_terms)
        # Equal for the same term in the same text, and ascending by term, kind and text.
        keys = (rank[encoded.indices.to_numpy()] * len(KINDS) + kind[text]) * len(kind) + text
        keys, counts = np.unique(keys, return_counts=True)
        rows, text = np.divmod(keys, max(len(kind), 1))
        rows, starts = np.unique(rows, return_index=True)
        offsets = pa.array(np.append(starts, len(keys)), pa.int32())
        term, kind_of_row = np.divmod(rows, len(KINDS))
        lists = (number[text], position[text].astype(np.int32), counts.astype(np.int32))
        columns = [
            encoded.dictionary.take(pa.array(order[term])),
            pa.array(kind_of_row.astype(np.int8)),
            *(pa.ListArray.from_arrays(offsets, pa.array(values)) for values in lists),
        ]
        return pa.table(columns, schema=schema)


def merge_postings(rows: pa.Table, live: npt.NDArray[np.int64]) -> pa.Table:
    """Merge rows of the table of terms that have the same term and kind.

    Args:
        rows: The rows.
        live: The numbers of the documents to keep.

    Returns:
        The merged rows, sorted; those without any document left are left out.
    """
    rows = rows.sort_by([("term", "ascending"), ("kind", "ascending")]).combine_chunks()
    if not rows.num_rows:
        return rows
    lists = {name: _only_chunk(rows[name]) for name in ("documents", "positions", "counts")}
    values = {name: column.flatten().to_numpy() for name, column in lists.items()}
    is_live = np.isin(values["documents"], live)
    row_of_value = np.repeat(
        np.arange(rows.num_rows), lists["documents"].value_lengths().to_numpy()
    )
    kept = np.bincount(row_of_value[is_live], minlength=rows.num_rows)
    names, kinds = rows["term"].to_numpy(), rows["kind"].to_numpy()
    is_first = np.ones(rows.num_rows, np.bool_)
    is_first[1:] = (names[1:] != names[:-1]) | (kinds[1:] != kinds[:-1])
    starts = np.flatnonzero(is_first)
    sizes = np.add.reduceat(kept, starts)
    offsets = pa.array(np.concatenate([[0], np.cumsum(sizes)]), pa.int32())
    columns = [
        pa.ListArray.from_arrays(offsets, pa.array(values[name][is_live])) for name in values
    ]
    merged = pa.table(
        [rows["term"].take(pa.array(starts)), rows["kind"].take(pa.array(starts)), *columns],
        schema=rows.schema,
    )
    return merged.filter(pa.array(sizes > 0))


def _only_chunk(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)
