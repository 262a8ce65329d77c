"""A library at one point in time: what a search needs of it in memory.

Documents are in the order of their files' names, and so are their sections and sentences: all
arrays are in that order, whatever order the documents were added in.
"""

from collections.abc import Sequence
from functools import cached_property
from threading import RLock
from typing import Any, Self, TypeVar, overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from foveate.index.codes import Codes
from foveate.index.lance import quote_list, read, read_batches
from foveate.index.schema import DOCUMENT, SECTION, SENTENCE, pack_keys
from foveate.index.store import State, Store
from foveate.index.vectors import vectors_of
from foveate.index.words import Ints, Postings, Words
from foveate.tasks.arguments import Unit

_Value = TypeVar("_Value")

_OUTLINE = (
    *("document", "source", "file", "member", "language", "section_sizes", "section_totals"),
    *("sentence_lengths", "heading_lengths", "outline_length"),
)


class _loaded_once(cached_property[_Value]):  # noqa: N801 (a decorator)
    """A cached property that is loaded once, even if several threads need it at the same time."""

    @overload
    def __get__(self, instance: None, owner: type[Any] | None = None) -> Self: ...

    @overload
    def __get__(self, instance: Any, owner: type[Any] | None = None) -> _Value: ...

    def __get__(self, instance: Any, owner: type[Any] | None = None) -> Self | _Value:
        if instance is None:
            return self
        with instance.lock:
            value: _Value = super().__get__(instance, owner)
            return value


class Snapshot:
    """A library's tables at one point in time.

    Args:
        store: The library.
        state: Its state at that time.

    Attributes:
        state: Its state.
        tables: Its tables.
        numbers: `(documents,)`, the number of each document.
        sources: The name of each document, by its number.
        languages: The language of each document, None if it is unknown.
        language: The language of most documents; None if there are none.
        section_sizes: `(sections,)`, number of sentences directly in each section.
        section_totals: `(sections,)`, the same with those of its subsections.
        sentence_ends: `(documents,)`, index just past the last sentence of each document.
        section_ends: `(documents,)`, index just past the last section of each document.
        section_idx: `(sentences,)`, the section that each sentence is directly in.
        section_document: `(sections,)`, the document that each section is in.
        lengths: Number of terms of each text, by kind; those of a section or document include the
            sentences in it.
        lock: Held while large parts are loaded.
    """

    def __init__(self, store: Store, state: State) -> None:
        self.lock = RLock()
        self.store = store
        self.state = state
        self.tables = store.open_tables(state)
        with store.explained():
            outline = read(self.tables["documents"], _OUTLINE)
        outline = outline.sort_by([("file", "ascending"), ("member", "ascending")])
        self.numbers = outline["document"].to_numpy()
        self.sources = dict(zip(self.numbers.tolist(), outline["source"].to_pylist(), strict=True))
        self.languages = outline["language"].to_pylist()
        self.language = _commonest(self.languages)
        self.section_sizes, sections = _flatten(outline["section_sizes"])
        self.section_totals, _ = _flatten(outline["section_totals"])
        sentence_lengths, sentences = _flatten(outline["sentence_lengths"])
        heading_lengths, _ = _flatten(outline["heading_lengths"])
        self.section_ends = np.cumsum(sections)
        self.sentence_ends = np.cumsum(sentences)
        self.section_idx = np.repeat(np.arange(len(self.section_sizes)), self.section_sizes)
        self.section_document = np.repeat(np.arange(len(self.numbers)), sections)
        outline_lengths = outline["outline_length"].to_numpy().astype(np.int64)
        self.lengths = {
            SENTENCE: sentence_lengths,
            SECTION: heading_lengths + _sums(sentence_lengths, self.section_idx, heading_lengths),
            DOCUMENT: outline_lengths
            + _sums(sentence_lengths, self.sentence_document, outline_lengths),
        }
        self._by_number = np.argsort(self.numbers)

    @property
    def num_documents(self) -> int:
        """Number of documents."""
        return len(self.numbers)

    @property
    def num_sentences(self) -> int:
        """Number of sentences."""
        return len(self.section_idx)

    @cached_property
    def sentence_document(self) -> Ints:
        """`(sentences,)`, the index of each sentence's document."""
        return self.section_document[self.section_idx]

    @cached_property
    def sentence_starts(self) -> Ints:
        """`(documents,)`, index of the first sentence of each document."""
        return np.concatenate([np.zeros(1, np.int64), self.sentence_ends[:-1]])

    @cached_property
    def section_starts(self) -> Ints:
        """`(sections,)`, index of the first sentence directly in each section."""
        return np.cumsum(self.section_sizes) - self.section_sizes

    def count(self, by: Unit) -> int:
        """Return the number of sections or documents; for passages, of sentences."""
        counts = {"passage": self.num_sentences, "section": len(self.section_sizes)}
        return counts.get(by, self.num_documents)

    def sizes(self, by: Unit) -> Ints:
        """Return the number of sentences directly in each section or document; for passages, 1."""
        if by == "passage":
            return np.ones(self.num_sentences, np.int64)
        if by == "section":
            return self.section_sizes
        return self.sentence_ends - self.sentence_starts

    def starts(self, by: Unit) -> Ints:
        """Return the index of the first sentence directly in each section or document."""
        return self.section_starts if by == "section" else self.sentence_starts

    def owners(self, by: Unit, sentences: Ints) -> Ints:
        """Return the section or document that each sentence is in; for passages, itself."""
        if by == "passage":
            return sentences
        return (self.section_idx if by == "section" else self.sentence_document)[sentences]

    @_loaded_once
    def sentences(self) -> npt.NDArray[np.float16]:
        """`(sentences, dimension)`, the vectors of all sentences."""
        return self._load_vectors("sentences", self.sentence_ends)

    @_loaded_once
    def sections(self) -> npt.NDArray[np.float16]:
        """`(sections, dimension)`, the vectors of all sections."""
        return self._load_vectors("sections", self.section_ends)

    @_loaded_once
    def sentence_codes(self) -> Codes:
        """The signs of the vectors of all sentences."""
        return Codes(self.sentences)

    @_loaded_once
    def section_codes(self) -> Codes:
        """The signs of the vectors of all sections."""
        return Codes(self.sections)

    @_loaded_once
    def words(self) -> Words:
        """The words of the library."""
        owners = {SECTION: self.section_idx, DOCUMENT: self.sentence_document}
        return Words(self.lengths, owners, self.postings)

    def _load_vectors(self, name: str, ends: Ints) -> npt.NDArray[np.float16]:
        total = int(ends[-1]) if len(ends) else 0
        vectors = np.zeros((total, self.state.model.dimension), np.float16)
        with self.store.explained():
            for batch in read_batches(self.tables[name], ("document", "position", "vector")):
                idx = self.places(ends, batch["document"].to_numpy(), batch["position"].to_numpy())
                vectors[idx] = vectors_of(batch["vector"])
        return vectors

    def document_idx(self, numbers: Ints) -> Ints:
        """Return the index of each document; -1 for those that no longer exist."""
        if not len(self.numbers):
            return np.full(len(numbers), -1)
        # Parts of a document mostly follow each other, so that it is looked up once.
        is_first = np.ones(len(numbers), np.bool_)
        is_first[1:] = numbers[1:] != numbers[:-1]
        firsts = numbers[is_first]
        found = np.searchsorted(self.numbers, firsts, sorter=self._by_number)
        idx = self._by_number[np.minimum(found, len(self.numbers) - 1)]
        of_firsts: Ints = np.where(self.numbers[idx] == firsts, idx, -1)
        of_all: Ints = of_firsts[np.cumsum(is_first) - 1]
        return of_all

    def places(self, ends: Ints, numbers: Ints, positions: npt.NDArray[Any]) -> Ints:
        """Return the index of parts of documents.

        Args:
            ends: `sentence_ends` or `section_ends`.
            numbers: The number of the document of each.
            positions: The position of each in its document.

        Returns:
            The indices; -1 for parts of documents that no longer exist.
        """
        documents = self.document_idx(numbers)
        starts = np.concatenate([[0], ends])[documents]
        return np.where(documents < 0, -1, starts + positions)

    def keys(self, ends: Ints, idx: Ints) -> Ints:
        """Return the keys of sentences or sections; the inverse of `places`."""
        documents = np.searchsorted(ends, idx, side="right")
        starts = np.concatenate([[0], ends])[documents]
        return pack_keys(self.numbers[documents], idx - starts)

    def postings(self, terms: Sequence[str]) -> dict[tuple[str, int], Postings]:
        """Return where each term occurs, for each kind of text in which it does."""
        if not terms:
            return {}
        columns = ("term", "kind", "documents", "positions", "counts")
        with self.store.explained():
            rows = read(self.tables["terms"], columns, f"term IN {quote_list(terms)}")
        ends = {
            SENTENCE: self.sentence_ends,
            SECTION: self.section_ends,
            DOCUMENT: np.arange(1, self.num_documents + 1),
        }
        lists = [_flatten(rows[name]) for name in columns[2:]]
        (documents, sizes), (positions, _), (counts, _) = lists
        starts = np.cumsum(sizes) - sizes
        parts: dict[tuple[str, int], list[slice]] = {}
        names = zip(rows["term"].to_pylist(), rows["kind"].to_pylist(), strict=True)
        for key, start, size in zip(names, starts.tolist(), sizes.tolist(), strict=True):
            parts.setdefault(key, []).append(slice(start, start + size))
        found = {}
        for (term, kind), slices in parts.items():
            term_documents, term_positions, term_counts = (
                values[slices[0]]
                if len(slices) == 1
                else np.concatenate([values[s] for s in slices])
                for values in (documents, positions, counts)
            )
            idx = self.places(ends[kind], term_documents, term_positions)
            is_there = idx >= 0
            found[term, kind] = Postings(idx[is_there], term_counts[is_there])
        return found


def _commonest(languages: list[str | None]) -> str | None:
    """Return the most common value; of several, the first."""
    return max(dict.fromkeys(languages), key=languages.count, default=None)


def _sums(values: Ints, owner: Ints, owners: Ints) -> Ints:
    """Return the sum of the values of each owner."""
    return np.bincount(owner, values, len(owners)).astype(np.int64)


def _flatten(column: pa.ChunkedArray) -> tuple[Ints, Ints]:
    """Return the values of a column of lists, and the length of each list."""
    lists = column.combine_chunks()
    if isinstance(lists, pa.ChunkedArray):
        lists = pa.concat_arrays(lists.chunks) if lists.num_chunks else pa.array([], column.type)
    values = lists.flatten().to_numpy(zero_copy_only=False).astype(np.int64)
    lengths = lists.value_lengths().to_numpy(zero_copy_only=False).astype(np.int64)
    return values, lengths
