"""Texts in which facts are planted, and questions in front of them."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.random import Generator, default_rng
from numpy.typing import NDArray
from torch import Tensor

from fovea_texts import Texts

PIECE = 4096  # tokens of the pieces in the data file
FACT_EVERY = 32  # tokens, at least; short texts have fewer facts
ANCHORS = 2  # of a document and a sentence


class Batch(NamedTuple):
    """Texts with questions and answers.

    Attributes:
        ids: `(texts, length)` int64; the questions come first.
        places: `(texts, planted)` int64, where facts are.
        values: `(texts, planted)` int64, the ids of their values.
        answers: `(texts, asked)` int64, from 0.
    """

    ids: Tensor
    places: Tensor
    values: Tensor
    answers: Tensor


@lru_cache(maxsize=1)
def load(path: Path) -> Texts:
    """Load the data file, once for all trainings of a process."""
    return Texts.load(path, SimpleNamespace(length=PIECE, held_out=None))


@dataclass(frozen=True)
class Needles:
    """The task: which value has the key that a question asks for?

    A fact is one token, the sum of two embeddings: that of its key and that of its value. A
    question is one token, of its own for each key. The keys of a text differ, and each question is
    for one of them, drawn at random.

    Attributes:
        streams: Running text as ids, to train with and held out.
        words: Number of ids in it.
        keys: Number of keys.
        values: Number of values, which is that of the possible answers.
        planted: Facts in a text of at least 32 times as many tokens; shorter ones have fewer.
        asked: Questions in front of it.
        curriculum: Lengths to train with, in tokens, ascending.
        double_every: Steps with each of them, after which the last three are drawn at random.
        tokens: Tokens of a batch.
        device: Where batches go.
    """

    streams: tuple[NDArray[np.integer], NDArray[np.integer]]
    words: int
    keys: int
    values: int
    planted: int
    asked: int
    curriculum: list[int]
    double_every: int
    tokens: int
    device: str

    @classmethod
    def from_options(cls, options: Any, device: str) -> "Needles":
        """Load the data file."""
        loaded = load(options.data)
        return cls(
            streams=(loaded.train.reshape(-1), loaded.held_out.reshape(-1)),
            words=len(loaded.strings),
            keys=options.keys,
            values=options.values,
            planted=options.planted,
            asked=options.asked,
            curriculum=options.curriculum,
            double_every=options.double_every,
            tokens=options.tokens,
            device=device,
        )

    @property
    def vocabulary(self) -> int:
        """Number of ids: words, keys, values, questions and, last, anchors."""
        return self.words + 2 * self.keys + self.values + ANCHORS

    def texts(self, part: int, number: int, length: int, random: Generator) -> Batch:
        """Draw texts of a length from a stream, 0 to train with or 1 held out."""
        stream = self.streams[part]
        begins = random.integers(len(stream) - length, size=number)
        ids = stream[begins[:, None] + np.arange(length)].astype(np.int64)
        planted = min(self.planted, length // FACT_EVERY)
        places, keys = (
            random.random((number, n)).argsort(1)[:, :planted]  # distinct ones
            for n in (length - self.asked, self.keys)
        )
        places += self.asked
        values = random.integers(self.values, size=places.shape)
        np.put_along_axis(ids, places, self.words + keys, 1)
        asked = random.integers(planted, size=(number, self.asked))
        first_value = self.words + self.keys
        first_question = first_value + self.values
        ids[:, : self.asked] = first_question + np.take_along_axis(keys, asked, 1)
        answers = np.take_along_axis(values, asked, 1)
        arrays = ids, places, first_value + values, answers
        return Batch(*(torch.from_numpy(array).to(self.device) for array in arrays))

    def training_batch(self, step: int, seed: int) -> Batch:
        """Return a batch by its number: the lengths in turn, then the last three at random."""
        random = default_rng((seed, step))
        drawn = int(random.choice(self.curriculum[-3:]))
        turn = step // self.double_every
        length = self.curriculum[turn] if turn < len(self.curriculum) else drawn
        return self.texts(0, max(1, self.tokens // length), length, random)

    def test_batches(self, length: int, number: int) -> Iterator[Batch]:
        """Yield the held-out texts of a length, the same for every model."""
        random = default_rng((1, length))
        at_once = max(1, self.tokens // length)
        for first in range(0, number, at_once):
            yield self.texts(1, min(at_once, number - first), length, random)
