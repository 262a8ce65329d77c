"""What a library is searched with: it proposes rows, and reads those that are then scored."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from foveate.index.schema import are_of
from foveate.index.state import State
from foveate.tasks.weights import Level

Ids = npt.NDArray[np.integer]


class Engine(Protocol):
    """A library in a search engine; `foveate.index.lance` is the one that builds libraries.

    Rows are as in `foveate.index.schema`, with some of its columns. Conditions are in SQL.

    Attributes:
        state: The library's state.
    """

    state: State

    def __hash__(self) -> int:
        """Return a hash, which two engines may share."""
        ...

    def candidates(
        self,
        vectors: npt.NDArray[np.float32],
        terms: Sequence[str],
        where: str | None,
        k: int,
        level: Level,
    ) -> tuple[Ids, Ids]:
        """Propose rows for a query, by numbers of the engine's own that `take` understands.

        Args:
            vectors: `(parts, dimension)`, of the parts of the query, of unit length.
            terms: Its terms.
            where: What the rows must satisfy.
            k: How many to propose for each part, and by their terms.
            level: The level of those that are proposed by their terms.

        Returns:
            The rows of any level whose vectors are closest to one of the parts; and the rows of the
            level that have the terms that count most, best first.
        """
        ...

    def take(self, ids: Ids, columns: Sequence[str]) -> pa.Table:
        """Read rows that were proposed, each once, in any order."""
        ...

    def read(
        self, columns: Sequence[str], where: str | None = None, *, limit: int | None = None
    ) -> pa.Table:
        """Read the rows that satisfy a condition, or some of them."""
        ...

    def rarity(self, terms: Sequence[str], level: Level) -> npt.NDArray[np.float64]:
        """Return `foveate.tasks.weights.rarity` of terms in the texts of a level: `(terms,)`."""
        ...

    def check(self, where: str) -> None:
        """Check that a condition can be evaluated.

        Raises:
            ValueError: It cannot be; the message says why.
        """
        ...


def fetch(
    engine: Engine,
    keys: npt.NDArray[np.int64],
    columns: Sequence[str],
    where: str | None = None,
) -> pa.Table:
    """Read the rows with some keys that satisfy a condition, in the order of their keys."""
    wanted = f"key IN ({as_list(keys)})"
    rows = engine.read(columns, f"{wanted} AND ({where})" if where else wanted)
    return rows.sort_by("key")


def as_list(numbers: npt.NDArray[np.integer]) -> str:
    """Return numbers for SQL's IN."""
    return ", ".join(map(str, numbers.tolist())) or "NULL"


def of_level(rows: pa.Table, level: Level) -> pa.Table:
    """Return the rows of a level."""
    return rows.filter(pa.array(are_of(keys_of(rows), level)))


def keys_of(rows: pa.Table) -> npt.NDArray[np.int64]:
    """Return the keys of rows."""
    keys: npt.NDArray[np.int64] = rows["key"].to_numpy()
    return keys
