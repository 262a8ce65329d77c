"""Training data as one long sequence of packs, each a step of one device."""

import random
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, TypeVar

import torch
from torch.utils.data import Dataset

from .rows import Row

T = TypeVar("T")

_TRIED = 16
"""Packs without any rows, one after the other, after which the fault is not in the examples."""

_JITTER = 0.1  # of lengths, so that another epoch groups other documents of like length


class Packs(Dataset[list[Row]], Generic[T]):
    """Epoch after epoch of documents, in packs of like lengths that add up to a budget of tokens.

    What pack i holds, and what chance does to it, depends on i and the seed alone. So a run that
    is broken off goes on exactly where it was by starting at the next pack, whatever the number of
    workers; and several processes that take packs in turns never take the same.

    Documents are read and made rows when a pack is asked for, in the workers of a `DataLoader`. One
    that cannot be made rows is left out with a warning, and a pack of such only is the next one.

    Args:
        examples: what to read, an item at a time.
        lengths: tokens of each, or an estimate.
        budget: tokens of a pack; a document that is longer is a pack of its own.
        rows: makes rows of an example; the generator decides what is left to chance.
        number: packs in all, None for those of one epoch.
        seed: of the order and of chance.

    Raises:
        ValueError: no examples.
    """

    def __init__(
        self,
        examples: Sequence[T],
        lengths: Sequence[int],
        budget: int,
        rows: Callable[[T, torch.Generator], list[Row]],
        *,
        number: int | None = None,
        seed: int = 0,
    ) -> None:
        if not len(examples):
            raise ValueError("there is nothing to train on: give at least one document")
        self.examples, self.lengths, self.budget = examples, lengths, budget
        self.rows, self.seed = rows, seed
        self._epochs: list[int] = []  # packs before the end of each epoch so far
        self._latest: tuple[int, list[list[int]]] = (-1, [])
        self.number = self.packs_of(1) if number is None else number

    def __len__(self) -> int:
        """Return the number of packs."""
        return self.number

    def __getitem__(self, index: int) -> list[Row]:
        """Read a pack or, where none of its examples can be made rows, the next that has some.

        Raises:
            ValueError: nor have the packs behind it; the reason is that of the last example.
        """
        if not 0 <= index < self.number:
            raise IndexError(f"pack {index} of {self.number}")
        for place in range(index, index + min(_TRIED, self.number)):
            epoch, members = self._members(place % self.number)
            made: list[Row] = []
            for number in members:
                chance = random.Random(f"{self.seed} {epoch} {number}").getrandbits(63)
                rng = torch.Generator().manual_seed(chance)
                try:
                    made += self.rows(self.examples[number], rng)
                except ValueError as error:
                    reason = error
                    warnings.warn(f"example {number} is left out: {error}", stacklevel=2)
            if made:
                return made
        raise reason

    def packs_of(self, epochs: int) -> int:
        """Return how many packs so many epochs are."""
        while len(self._epochs) < epochs:
            self._pack(len(self._epochs))
        return self._epochs[epochs - 1]

    def _members(self, index: int) -> tuple[int, list[int]]:
        """Epoch and examples of a pack."""
        epoch = 0
        while self.packs_of(epoch + 1) <= index:
            epoch += 1
        before = self._epochs[epoch - 1] if epoch else 0
        return epoch, self._pack(epoch)[index - before]

    def _pack(self, epoch: int) -> list[list[int]]:
        """Pack the examples for an epoch."""
        if self._latest[0] == epoch:
            return self._latest[1]
        rng = random.Random(f"{self.seed} {epoch}")
        jittered = [length * (1 + _JITTER * rng.random()) for length in self.lengths]
        order = sorted(range(len(jittered)), key=jittered.__getitem__)
        packs = list(fill(order, self.lengths, self.budget))
        rng.shuffle(packs)
        if epoch == len(self._epochs):
            self._epochs.append(len(packs) + (self._epochs[-1] if epoch else 0))
        self._latest = epoch, packs
        return packs


def fill(order: Sequence[int], lengths: Sequence[int], budget: int) -> Iterator[list[int]]:
    """Take numbers in order into packs whose lengths add up to the budget at most.

    Example:
        >>> list(fill([0, 1, 2, 3], [4, 5, 20, 1], budget=10))
        [[0, 1], [2], [3]]
    """
    pack: list[int] = []
    total = 0
    for number in order:
        if pack and total + lengths[number] > budget:
            yield pack
            pack, total = [], 0
        pack.append(number)
        total += lengths[number]
    if pack:
        yield pack


def join(collate: Callable[[list[Row]], Any], packs: Sequence[list[Row]]) -> Any:
    """Collate the rows of packs, commonly one, as a `DataLoader` gives them."""
    return collate([row for pack in packs for row in pack])
