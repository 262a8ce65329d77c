"""Training data as one long sequence of packs, each the input of one device in one step."""

import random
import warnings
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

import torch
from torch.utils.data import Dataset

from foveate.data.corpus import Corpus
from foveate.preprocessing.collate import Features, fill_packs

T = TypeVar("T")

_MAX_EMPTY_PACKS = 16
"""How many packs in a row may yield no features before the examples are considered faulty."""

_JITTER = 0.1  # of lengths, so that every epoch groups different documents of similar length


class PackedDataset(Dataset[list[Features]], Generic[T]):
    """Epochs of examples, in packs of similar lengths that add up to a token budget.

    The content of pack i, and every random decision about it, depends only on i and the seed. So an
    interrupted run resumes exactly by starting at the next pack, with any number of workers, and
    several processes that take packs in turn never take the same one.

    Examples are read and tokenized when a pack is requested, in the workers of a `DataLoader`. An
    example that cannot be used is skipped with a warning; a pack without any usable example is
    replaced by the next one.

    Args:
        examples: The examples, read by index.
        lengths: The number of tokens of each example, or an estimate.
        budget: Tokens in a pack. A longer example is a pack by itself.
        make_features: Tokenizes an example; the generator decides what is random. Raises a
            `ValueError` for an example that cannot be used.
        num_packs: Number of packs in total; None for one epoch.
        seed: Seed of the order and of the generators.

    Raises:
        ValueError: There are no examples.
    """

    def __init__(
        self,
        examples: Sequence[T],
        lengths: Sequence[int],
        budget: int,
        make_features: Callable[[T, torch.Generator], list[Features]],
        *,
        num_packs: int | None = None,
        seed: int = 0,
    ) -> None:
        if not len(examples):
            raise ValueError("there is nothing to train on: give at least one document")
        self.examples, self.lengths, self.budget = examples, lengths, budget
        self.make_features, self.seed = make_features, seed
        self._skipped: set[int] = set()  # what has been warned of
        self._epoch_ends: list[int] = []  # number of packs up to the end of each epoch so far
        self._last_epoch: tuple[int, list[list[int]]] = (-1, [])
        self.num_packs = self.count_packs(1) if num_packs is None else num_packs

    def __len__(self) -> int:
        """Return the number of packs."""
        return self.num_packs

    def __getitem__(self, index: int) -> list[Features]:
        """Tokenize the examples of a pack or, if none of them can be used, of the next one.

        Raises:
            ValueError: None of the following packs has a usable example either; the error is that
                of the last example.
        """
        if not 0 <= index < self.num_packs:
            raise IndexError(f"pack {index} of {self.num_packs}")
        for candidate in range(index, index + min(_MAX_EMPTY_PACKS, self.num_packs)):
            epoch, members = self._members(candidate % self.num_packs)
            pack: list[Features] = []
            for number in members:
                example_seed = random.Random(f"{self.seed} {epoch} {number}").getrandbits(63)
                generator = torch.Generator().manual_seed(example_seed)
                try:
                    pack += self.make_features(self.examples[number], generator)
                except ValueError as error:
                    last_error = error
                    self._warn_of(number, error)
            if pack:
                return pack
        raise last_error

    def count_packs(self, num_epochs: int) -> int:
        """Return the number of packs in this many epochs."""
        while len(self._epoch_ends) < num_epochs:
            self._pack_epoch(len(self._epoch_ends))
        return self._epoch_ends[num_epochs - 1]

    def _warn_of(self, number: int, error: ValueError) -> None:
        """Warn once, not in every epoch, that an example is skipped."""
        if number in self._skipped:
            return
        self._skipped.add(number)
        place = describe_place(self.examples, number)
        warnings.warn(f"{place} is skipped: {error}", stacklevel=3)

    def _members(self, index: int) -> tuple[int, list[int]]:
        """Return the epoch of a pack, and the indices of its examples."""
        epoch = 0
        while self.count_packs(epoch + 1) <= index:
            epoch += 1
        start = self._epoch_ends[epoch - 1] if epoch else 0
        return epoch, self._pack_epoch(epoch)[index - start]

    def _pack_epoch(self, epoch: int) -> list[list[int]]:
        if self._last_epoch[0] == epoch:
            return self._last_epoch[1]
        rng = random.Random(f"{self.seed} {epoch}")
        jittered = [length * (1 + _JITTER * rng.random()) for length in self.lengths]
        order = sorted(range(len(jittered)), key=jittered.__getitem__)
        packs = list(fill_packs(order, self.lengths, self.budget))
        rng.shuffle(packs)
        if epoch == len(self._epoch_ends):
            self._epoch_ends.append(len(packs) + (self._epoch_ends[-1] if epoch else 0))
        self._last_epoch = epoch, packs
        return packs


def describe_place(examples: Sequence[Any], number: int) -> str:
    """Say which example this is, for messages: by its file and line, its id or its number."""
    if isinstance(examples, Corpus):
        return examples.place(number)
    return getattr(examples[number], "id", "") or f"example {number}"


def collate_packs(collate: Callable[[list[Features]], Any], packs: Sequence[list[Features]]) -> Any:
    """Collate packs, usually a single one, as a `DataLoader` passes them."""
    return collate([features for pack in packs for features in pack])
