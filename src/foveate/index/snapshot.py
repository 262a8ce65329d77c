"""A library at one point in time, from which Lance proposes what may match a query."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from foveate.index.schema import LEVELS, TERMS, Level, are_of
from foveate.index.statistics import WordCounts
from foveate.index.store import CONDITION_ERRORS, LanceError, Store, reason_of, without_panics

_KEYS_PER_CONDITION = 5_000

_PROBES, _REFINED = 200, 2
"""Partitions of the index of vectors that are searched, and how many times more vectors than are
asked for are then compared exactly."""


class Snapshot:
    """A library's newest version at the time when this is made.

    Args:
        store: The library.

    Attributes:
        store: The library.
        table: Its table.
        state: Its state.
        totals: What it holds.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self.table = store.open()
        self.state = store.state_of(self.table)
        self.totals = store.totals(self.table)
        self.threads = ThreadPoolExecutor(4)
        self._lock = Lock()
        self._counts: list[WordCounts] | None = None

    def read(
        self, columns: Sequence[str], condition: str | None = None, **options: Any
    ) -> pa.Table:
        """Read some columns of the rows that satisfy a condition."""
        return self.store.read(self.table, columns, condition, **options)

    def fetch(
        self, keys: npt.NDArray[np.int64], columns: Sequence[str], condition: str | None = None
    ) -> pa.Table:
        """Read some columns of the rows with some keys, in the order of their keys."""
        parts = []
        for start in range(0, max(len(keys), 1), _KEYS_PER_CONDITION):
            some = ", ".join(map(str, keys[start : start + _KEYS_PER_CONDITION].tolist()))
            wanted = f"key IN ({some or 'NULL'})"
            parts.append(self.read(columns, f"{wanted} AND ({condition})" if condition else wanted))
        return pa.concat_tables(parts).sort_by("key")

    def nearest(
        self,
        vector: npt.NDArray[np.float32],
        k: int,
        columns: Sequence[str],
        condition: str | None = None,
    ) -> pa.Table:
        """Read the sentences, and some sections and documents, whose vectors are closest.

        Args:
            vector: `(dimension,)`.
            k: How many to read.
            columns: What to read of them.
            condition: What they must satisfy; without one, sections and documents are among them.
        """
        wanted = {"column": "vector", "q": vector, "k": k, "metric": "dot"}
        wanted |= {"nprobes": _PROBES, "refine_factor": _REFINED}
        return self._propose(columns, condition, nearest=wanted)

    def matching(
        self,
        terms: Sequence[str],
        level: Level,
        k: int,
        columns: Sequence[str],
        condition: str | None = None,
    ) -> pa.Table:
        """Read the texts of a level that have the terms that count most.

        Args:
            terms: The terms.
            level: The level.
            k: How many to read.
            columns: What to read of them.
            condition: What they must satisfy.
        """
        from lance.query import MatchQuery

        if not terms:
            return self.table.schema.empty_table().select(columns)
        query = MatchQuery(" ".join(terms), TERMS[level])
        return self._propose(columns, condition, full_text_query=query, limit=k)

    def _propose(self, columns: Sequence[str], condition: str | None, **query: Any) -> pa.Table:
        return self.read(
            columns, condition, prefilter=True, disable_scoring_autoprojection=True, **query
        )

    def check(self, condition: str, shown: str) -> None:
        """Check that a condition can be evaluated.

        Args:
            condition: The condition.
            shown: How the caller wrote it.

        Raises:
            ValueError: It cannot be.
        """
        try:
            with without_panics():
                self.table.scanner(["key"], filter=condition, limit=1).to_table()
        except (ValueError, RuntimeError, OSError) as error:
            is_condition = any(kind in str(error) for kind in CONDITION_ERRORS)
            if not (is_condition or isinstance(error, LanceError)):
                with self.store.explained():  # the table is to blame, not the condition
                    raise
            raise ValueError(
                f"the condition {shown} cannot be evaluated ({reason_of(error)}): write it as "
                "after WHERE in SQL, with texts in single quotes"
            ) from error

    def term_weights(self, terms: Sequence[str], level: Level) -> npt.NDArray[np.float64]:
        """Return i(t) of `foveate.tasks.bm25.bm25` of each term: `(terms,)`."""
        with self._lock:
            if self._counts is None:
                self._counts = list(self.store.word_counts(self.table).values())
        idx, num_texts = LEVELS.index(level), self.totals.num_texts(level)
        having = np.array([sum(one.frequency(t)[idx] for one in self._counts) for t in terms])
        weights: npt.NDArray[np.float64] = np.log1p((num_texts - having + 0.5) / (having + 0.5))
        return weights

    @property
    def language(self) -> str | None:
        """The language of the first document; None if there is none."""
        rows = self.read(["language"], "level = 'document'", limit=1)
        language: str | None = rows["language"][0].as_py() if rows.num_rows else None
        return language


def keys_of(rows: pa.Table) -> npt.NDArray[np.int64]:
    """Return the keys of rows."""
    keys: npt.NDArray[np.int64] = rows["key"].to_numpy()
    return keys


def of_level(rows: pa.Table, level: Level) -> pa.Table:
    """Return the rows of a level."""
    return rows.filter(pa.array(are_of(keys_of(rows), level)))
