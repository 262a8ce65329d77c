"""Lance as the engine: a library's newest version at one point in time."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from foveate.index.engine import Ids, as_list
from foveate.index.schema import LEVELS, TERMS
from foveate.index.statistics import WordCounts
from foveate.index.store import Store, reason_of
from foveate.tasks.weights import Level, rarity

_PROBES = 100
"""Partitions of the index of vectors that are searched."""


class LanceEngine:
    """A library's newest version at the time when this is made; see `Engine`.

    Args:
        store: The library.

    Attributes:
        store: The library.
        table: Its table.
        state: See `Engine`.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self.table = store.open()
        self.state = store.state_of(self.table)
        self._threads = ThreadPoolExecutor(4)

    def candidates(
        self,
        vectors: npt.NDArray[np.float32],
        terms: Sequence[str],
        where: str | None,
        k: int,
        level: Level,
    ) -> tuple[Ids, Ids]:
        """See `Engine`."""
        from lance.query import MatchQuery

        by_vector = {"column": "vector", "k": k, "metric": "dot", "nprobes": _PROBES}
        nearest = [
            self._threads.submit(self._propose, where, nearest={**by_vector, "q": vector})
            for vector in vectors
        ]
        matching: Ids = np.zeros(0, np.uint64)
        if terms:
            query = MatchQuery(" ".join(terms), TERMS[level])
            matching = self._propose(where, full_text_query=query, limit=k)
        return np.concatenate([future.result() for future in nearest]), matching

    def _propose(self, where: str | None, **query: Any) -> Ids:
        options = {"with_row_id": True, "disable_scoring_autoprojection": True}
        rows = self.store.read(self.table, [], where, prefilter=True, **options, **query)
        ids: Ids = rows["_rowid"].to_numpy()
        return ids

    def take(self, ids: Ids, columns: Sequence[str]) -> pa.Table:
        """See `Engine`."""
        return self.read(columns, f"_rowid IN ({as_list(np.unique(ids))})")

    def read(
        self, columns: Sequence[str], where: str | None = None, *, limit: int | None = None
    ) -> pa.Table:
        """See `Engine`."""
        return self.store.read(self.table, columns, where, limit=limit)

    def check(self, where: str) -> None:
        """See `Engine`."""
        try:
            self.table.scanner(["key"], filter=where, limit=1).to_table()
        except (ValueError, RuntimeError, OSError) as error:
            raise ValueError(f"{reason_of(error)}: write it as after WHERE in SQL") from error

    def rarity(self, terms: Sequence[str], level: Level) -> npt.NDArray[np.float64]:
        """See `Engine`."""
        idx = LEVELS.index(level)
        having = [sum(counts.frequency(term)[idx] for counts in self._counts) for term in terms]
        return rarity(np.array(having), self.state.totals.num_texts(level))

    @cached_property
    def _counts(self) -> list[WordCounts]:
        return list(self.store.word_counts(self.table).values())
