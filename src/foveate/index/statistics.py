"""How many texts of a library have a word, and how many texts there are.

These numbers are what BM25 needs to know of a whole library to score any of its texts. Lance has
them in its full-text indexes and does not tell, and to count the rows that have a frequent word
takes 90 ms among 100,000. So each commit adds a row that counts the words of what it adds and
removes. Small rows are merged into larger ones, so that there are few.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from foveate.index.schema import LEVELS, TERMS
from foveate.tasks.weights import Level, rarity


class Totals(NamedTuple):
    """What a library holds.

    Attributes:
        texts: Number of texts of each level.
        terms: Number of the terms of all texts of each level.
    """

    texts: tuple[int, ...]
    terms: tuple[int, ...]

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
    def of_rows(cls, rows: pa.Table) -> list[Self]:
        """Return the counts that rows hold."""
        lists, shape = zip(rows["words"], rows["frequencies"], strict=True), (-1, len(LEVELS))
        return [cls(words.values, held.values.to_numpy().reshape(shape)) for words, held in lists]

    @classmethod
    def total(cls, added: Sequence[Self], removed: Sequence[Self] = ()) -> Self:
        """Add up counts, and subtract those of what was removed."""
        parts = [(one, 1) for one in added] + [(one, -1) for one in removed]
        encoded = pa.chunked_array([one.words for one, _ in parts], pa.string())
        encoded = encoded.combine_chunks().dictionary_encode()
        words, frequencies = encoded.dictionary, np.zeros((len(encoded.dictionary), 3), np.int32)
        if parts:
            counts = np.concatenate([one.frequencies * sign for one, sign in parts])
            np.add.at(frequencies, encoded.indices.to_numpy(), counts)
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


def rarity_of(
    terms: Sequence[str], level: Level, counts: Sequence[WordCounts], totals: Totals
) -> npt.NDArray[np.float64]:
    """Return `foveate.tasks.weights.rarity` of terms in the texts of a level: `(terms,)`."""
    idx = LEVELS.index(level)
    having = [sum(one.frequency(term)[idx] for one in counts) for term in terms]
    return rarity(np.array(having), totals.num_texts(level))


def count(rows: pa.Table) -> tuple[npt.NDArray[np.int64], WordCounts]:
    """Count the texts and words of rows with a `level` and the columns of terms.

    Returns:
        `(2, levels)`, the number of texts and of terms; and in how many texts each word is.
    """
    totals = np.zeros((2, len(LEVELS)), np.int64)
    counts = []
    for i, level in enumerate(LEVELS):
        texts = rows[TERMS[level]].filter(pc.equal(rows["level"], level))
        split = pc.utf8_split_whitespace(texts).combine_chunks()
        terms = pa.table({"text": pc.list_parent_indices(split), "word": split.flatten()})
        terms = terms.filter(pc.not_equal(terms["word"], ""))  # of a text without terms
        totals[:, i] = len(split), len(terms)
        words = terms.group_by(["text", "word"]).aggregate([])["word"].value_counts()
        frequencies = np.zeros((len(words), len(LEVELS)), np.int32)
        frequencies[:, i] = words.field("counts")
        counts.append(WordCounts(words.field("values"), frequencies))
    return totals, WordCounts.total(counts)
