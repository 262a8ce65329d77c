"""How many texts of a library have a word, and how many texts there are.

These numbers are what BM25 needs to know of a whole library to score any of its texts. Lance has
them in its full-text indexes and does not tell, and to count the rows that have a frequent word
takes 90 ms among 100,000. So each commit adds a row that counts the words of what it adds and
removes. Small rows are merged into larger ones, so that there are few.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from operator import add, sub
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from foveate.index.schema import LEVELS, TERMS
from foveate.tasks.weights import Level


@dataclass(frozen=True, slots=True)
class Totals:
    """What a library holds, or by how much a commit changes that.

    Attributes:
        texts: Number of texts of each level.
        terms: Number of the terms of all texts of each level.
    """

    texts: tuple[int, ...] = (0,) * len(LEVELS)
    terms: tuple[int, ...] = (0,) * len(LEVELS)

    def __add__(self, other: Self) -> Self:
        """Add what was added."""
        return self.from_list(list(map(add, self.to_list(), other.to_list())))

    def __sub__(self, other: Self) -> Self:
        """Subtract what was removed."""
        return self.from_list(list(map(sub, self.to_list(), other.to_list())))

    @classmethod
    def from_list(cls, totals: Sequence[int]) -> Self:
        """Return what `to_list` returned."""
        return cls(tuple(totals[: len(LEVELS)]), tuple(totals[len(LEVELS) :]))

    def to_list(self) -> list[int]:
        """Return the numbers in a row of the table."""
        return [*self.texts, *self.terms]

    def num_texts(self, level: Level) -> int:
        """Return the number of texts of a level."""
        return self.texts[LEVELS.index(level)]

    def mean_length(self, level: Level) -> float:
        """Return the mean number of terms of a text, at least 1."""
        num_terms = self.terms[LEVELS.index(level)]
        return max(num_terms / max(self.num_texts(level), 1), 1.0)


@dataclass(frozen=True, eq=False, slots=True)
class WordCounts:
    """In how many texts words are.

    Attributes:
        words: Sorted.
        frequencies: `(words, levels)` int32, number of texts of each level.
    """

    words: pa.StringArray
    frequencies: npt.NDArray[np.int32]

    @classmethod
    def from_lists(cls, words: pa.StringArray, frequencies: npt.NDArray[np.int32]) -> Self:
        """Return the counts that are in a row of the table."""
        return cls(words, frequencies.reshape(-1, len(LEVELS)))

    @classmethod
    def total(cls, added: Sequence[Self], removed: Sequence[Self] = ()) -> Self:
        """Add up counts, and subtract those of what was removed."""
        parts = [(one, 1) for one in added] + [(one, -1) for one in removed]
        encoded = pa.chunked_array([one.words for one, _ in parts], pa.string())
        encoded = encoded.combine_chunks().dictionary_encode()
        frequencies = np.zeros((len(encoded.dictionary), len(LEVELS)), np.int32)
        if parts:
            counts = np.concatenate([one.frequencies * sign for one, sign in parts])
            np.add.at(frequencies, encoded.indices.to_numpy(), counts)
        return cls._sorted(encoded.dictionary, frequencies)

    @classmethod
    def _sorted(cls, words: pa.StringArray, frequencies: npt.NDArray[np.int32]) -> Self:
        order = pc.sort_indices(words).to_numpy()
        order = order[frequencies[order].any(1)]
        return cls(words.take(pa.array(order)), frequencies[order])

    def frequency(self, word: str) -> npt.NDArray[np.int32]:
        """Return `(levels,)`, in how many texts of each level a word is."""
        words: Any = self.words  # in which `bisect_left` looks up a few
        idx = bisect_left(words, word, key=pa.StringScalar.as_py)
        if idx < len(self.words) and self.words[idx].as_py() == word:
            found: npt.NDArray[np.int32] = self.frequencies[idx]
            return found
        return np.zeros(len(LEVELS), np.int32)


def count(rows: pa.Table) -> tuple[Totals, WordCounts]:
    """Count the texts and words of rows with a `level` and the columns of terms."""
    texts, levels, words = [], [], []
    num_texts, num_terms = np.zeros((2, len(LEVELS)), np.int64)
    for i, level in enumerate(LEVELS):
        of_level = rows[TERMS[level]].filter(pc.equal(rows["level"], level))
        split = pc.utf8_split_whitespace(pc.utf8_trim_whitespace(of_level)).combine_chunks()
        sizes = split.value_lengths().to_numpy(zero_copy_only=False)
        values = split.flatten()
        is_term = pc.not_equal(values, "")  # a text without terms has one that is empty
        texts.append(
            np.repeat(np.arange(len(split)), sizes)[is_term.to_numpy(zero_copy_only=False)]
        )
        words.append(values.filter(is_term))
        levels.append(np.full(len(words[-1]), i))
        num_texts[i], num_terms[i] = len(split), len(words[-1])
    encoded = pa.concat_arrays(words).dictionary_encode()
    codes, level_idx = encoded.indices.to_numpy().astype(np.int64), np.concatenate(levels)
    in_text = (codes * len(LEVELS) + level_idx) * (int(num_texts.max()) + 1) + np.concatenate(texts)
    _, first = np.unique(in_text, return_index=True)
    frequencies = np.zeros((len(encoded.dictionary), len(LEVELS)), np.int32)
    np.add.at(frequencies, (codes[first], level_idx[first]), 1)
    totals = Totals.from_list([*num_texts.tolist(), *num_terms.tolist()])
    return totals, WordCounts._sorted(encoded.dictionary, frequencies)
