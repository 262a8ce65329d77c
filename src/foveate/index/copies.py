"""Copies of a library in other search engines, which find what it finds."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

import pyarrow as pa

from foveate.index.engine import OF_DOCUMENTS, Engine
from foveate.index.state import LibraryError, State
from foveate.index.statistics import WordCounts

if TYPE_CHECKING:
    from foveate.index.lance import LanceEngine

_DOCUMENTS = 64
"""Of how many documents rows are sent at a time."""


class Copy(ABC):
    """Where a copy is, which can be searched but not changed.

    Attributes:
        place: Its URL.
    """

    place: str

    @abstractmethod
    def explained(self) -> AbstractContextManager[None]:
        """Turn errors of the search engine's client into readable messages.

        Raises:
            OSError: The search engine cannot be reached.
        """

    @abstractmethod
    def state(self) -> State | None:
        """Return the state of the library that was copied; None if there is no copy."""

    @abstractmethod
    def searched(self, state: State) -> Engine:
        """Return what searches the copy, whose state this is."""

    @abstractmethod
    def documents(self, dimension: int) -> set[int]:
        """Return the numbers of the documents that are there, making room for vectors if needed."""

    @abstractmethod
    def remove(self, documents: Sequence[int]) -> None:
        """Remove documents."""

    @abstractmethod
    def send(self, rows: pa.Table, state: State) -> None:
        """Add the rows of documents; one that is only there in part is none of `documents`."""

    @abstractmethod
    def finish(self, counts: WordCounts, state: State) -> None:
        """Replace the state, and the counts of words."""

    def exists(self) -> bool:
        """Return whether there is a copy."""
        return self.state() is not None

    def engine(self) -> Engine:
        """Return what searches the copy.

        Raises:
            FileNotFoundError: There is none.
        """
        state = self.state()
        if state is None:
            raise FileNotFoundError(
                f"there is no library in {self.place}: `foveate library export DIR {self.place}` "
                "makes one"
            )
        return self.searched(state)

    def open(self) -> None:
        """Check that there is a copy.

        Raises:
            FileNotFoundError: There is none.
        """
        self.engine()

    def stamp(self) -> tuple[int, ...]:
        """Return a value that changes when the copy does."""
        state = self.state()
        return () if state is None else (state.version,)

    def write(self, engine: "LanceEngine") -> int:
        """Add the documents of a library that are not there yet, and remove those that are gone.

        Returns:
            The number of rows that were added.

        Raises:
            LibraryError: There is another library.
        """
        state, held = engine.state, self.state()
        if held is not None and held.library != state.library:
            raise LibraryError(f"{self.place} holds another library: choose a new name")
        with self.explained():
            there = self.documents(state.model.dimension)
            wanted = {*engine.read(["document"], OF_DOCUMENTS)["document"].to_pylist()}
            if gone := sorted(there - wanted):
                self.remove(gone)
            new = sorted(wanted - there)
            number = 0
            for start in range(0, len(new), _DOCUMENTS):
                some = {"document": new[start : start + _DOCUMENTS]}
                rows = engine.read(engine.table.schema.names, some).sort_by("key")
                self.send(rows, state)
                number += rows.num_rows
            counts = engine.store.word_counts(engine.table).values()
            self.finish(WordCounts.total(list(counts)), state)
        return number
