"""What a library is searched with: it proposes rows, and reads those that are then scored."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from foveate.index.schema import are_of
from foveate.index.state import State
from foveate.tasks.weights import Level

Ids = npt.NDArray[np.integer]

Matches = Mapping[str, Sequence[Any] | npt.NDArray[np.integer]]
"""The values that columns of rows may have: all columns must match."""

OF_DOCUMENTS: Matches = {"level": ["document"]}


class Engine(Protocol):
    """A library in a search engine; `foveate.index.lance` is the one that builds libraries.

    Rows are as in `foveate.index.schema`, with some of its columns. What the caller wants of rows,
    `where`, is what `condition` returns.

    Attributes:
        state: The library's state.
    """

    state: State

    def __hash__(self) -> int: ...  # which a protocol has only if it says so

    def condition(
        self, where: Sequence[str], path: str | None, section: str | None, document: int | None
    ) -> Any:
        """Check what is wanted of sentences, see `foveate.index.conditions.Conditions`.

        Raises:
            ValueError: The engine cannot evaluate it; the message says why.
        """
        ...

    def candidates(
        self,
        vectors: npt.NDArray[np.float32],
        terms: Sequence[str],
        k: int,
        level: Level,
        where: Any = None,
    ) -> tuple[Ids, Ids]:
        """Propose rows for a query, by numbers of the engine's own that `take` understands.

        Args:
            vectors: `(parts, dimension)`, of the parts of the query, of unit length.
            terms: Its terms.
            k: How many to propose for each part, and by their terms.
            level: The level of those that are proposed by their terms.
            where: What the rows must satisfy.

        Returns:
            The rows of any level whose vectors are closest to one of the parts; and the rows of the
            level that have the terms that count most, best first.
        """
        ...

    def take(self, ids: Ids, columns: Sequence[str]) -> pa.Table:
        """Read rows that were proposed, in their order; `key` is one of the columns."""
        ...

    def fetch(
        self, keys: npt.NDArray[np.int64], columns: Sequence[str], where: Any = None
    ) -> pa.Table:
        """Read the rows with some keys that satisfy a condition, in the order of their keys.

        Args:
            keys: Keys, of which some may be those of no row.
            columns: Columns, of which `key` is one.
            where: What the rows must satisfy.
        """
        ...

    def read(
        self,
        columns: Sequence[str],
        matches: Matches,
        where: Any = None,
        *,
        limit: int | None = None,
    ) -> pa.Table:
        """Read the rows that match and satisfy a condition, or some of them."""
        ...

    def rarity(self, terms: Sequence[str], level: Level) -> npt.NDArray[np.float64]:
        """Return `foveate.tasks.weights.rarity` of terms in the texts of a level: `(terms,)`."""
        ...


def of_level(rows: pa.Table, level: Level) -> pa.Table:
    """Return the rows of a level."""
    return rows.filter(pa.array(are_of(keys_of(rows), level)))


def keys_of(rows: pa.Table) -> npt.NDArray[np.int64]:
    """Return the keys of rows."""
    keys: npt.NDArray[np.int64] = rows["key"].to_numpy()
    return keys
