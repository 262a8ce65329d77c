"""Lance as the engine: a library's newest version at one point in time."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from foveate.index.schema import LEVELS, TERMS, Level
from foveate.index.statistics import WordCounts
from foveate.index.store import Store, reason_of
from foveate.tasks.weights import rarity

_KEYS_PER_CONDITION = 5_000

_PROBES, _REFINED = 100, 2
"""Partitions of the index of vectors that are searched, and how many times more vectors than are
asked for are then compared exactly."""


class LanceEngine:
    """A library's newest version at the time when this is made; see `Engine`.

    Args:
        store: The library.

    Attributes:
        store: The library.
        table: Its table.
        state: See `Engine`.
        totals: See `Engine`.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self.table = store.open()
        self.state, self.totals = store.state_of(self.table)
        self._threads = ThreadPoolExecutor(4)

    def candidates(
        self,
        vectors: npt.NDArray[np.float32],
        terms: Sequence[str],
        where: str | None,
        k: int,
        *,
        level: Level,
        columns: Sequence[str],
    ) -> tuple[list[pa.Table], pa.Table]:
        """See `Engine`."""
        nearest = [
            self._threads.submit(self._nearest, vector, k, columns, where) for vector in vectors
        ]
        matching = self._matching(terms, level, k, columns, where)
        return [future.result() for future in nearest], matching

    def _nearest(
        self, vector: npt.NDArray[np.float32], k: int, columns: Sequence[str], where: str | None
    ) -> pa.Table:
        wanted = {"column": "vector", "q": vector, "k": k, "metric": "dot"}
        wanted |= {"nprobes": _PROBES, "refine_factor": _REFINED}
        return self._propose(columns, where, nearest=wanted)

    def _matching(
        self, terms: Sequence[str], level: Level, k: int, columns: Sequence[str], where: str | None
    ) -> pa.Table:
        from lance.query import MatchQuery

        if not terms:
            return self.table.schema.empty_table().select(columns)
        query = MatchQuery(" ".join(terms), TERMS[level])
        return self._propose(columns, where, full_text_query=query, limit=k)

    def _propose(self, columns: Sequence[str], where: str | None, **query: Any) -> pa.Table:
        options = {"prefilter": True, "disable_scoring_autoprojection": True}
        return self.store.read(self.table, columns, where, **options, **query)

    def fetch(
        self, keys: npt.NDArray[np.int64], columns: Sequence[str], where: str | None = None
    ) -> pa.Table:
        """See `Engine`."""
        parts = []
        for start in range(0, max(len(keys), 1), _KEYS_PER_CONDITION):
            some = ", ".join(map(str, keys[start : start + _KEYS_PER_CONDITION].tolist()))
            wanted = f"key IN ({some or 'NULL'})"
            parts.append(self.read(columns, f"{wanted} AND ({where})" if where else wanted))
        return pa.concat_tables(parts).sort_by("key")

    def runs(
        self,
        firsts: npt.NDArray[np.int64],
        sizes: npt.NDArray[np.integer],
        columns: Sequence[str],
    ) -> pa.Table:
        """See `Engine`."""
        runs = zip(firsts.tolist(), (firsts + sizes).tolist(), strict=True)
        wanted = " OR ".join(f"(key >= {first} AND key < {end})" for first, end in runs)
        return self.read(columns, wanted or "FALSE")

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
        return rarity(np.array(having), self.totals.num_texts(level))

    @cached_property
    def _counts(self) -> list[WordCounts]:
        return list(self.store.word_counts(self.table).values())
