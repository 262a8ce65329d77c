"""What the encoders learn: masked words, and facts at a distance."""

import argparse
import math
from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.random import Generator, default_rng
from numpy.typing import NDArray
from torch import Tensor, nn

from fovea_arms import NEIGHBOURS
from fovea_texts import Ids, Texts, mask_words, word_starts
from foveate.ops.fovea_attention import select_nodes

DISTANCES = (128, 512, 1024, 2048)  # where the groups of masked words end
IGNORED = -100  # label of a question that cannot be answered
MASKED = 0.15  # of the words


class Words:
    """Masked language modelling."""

    def __init__(self, options: argparse.Namespace, device: str) -> None:
        self.texts = Texts.load(options.data, options)
        self.train, self.held_out, self.signs = (
            torch.from_numpy(x.astype(np.int64)).to(device)
            for x in (self.texts.train, self.texts.held_out, self.texts.signs)
        )
        self.vocabulary = self.outputs = len(self.texts.strings)
        self.longest = options.length
        self.batch = max(1, options.tokens // options.length)
        self.draws = options.draws
        self.number = round(MASKED * options.length)

    def masked(self, pieces: Tensor, seed: int) -> tuple[Tensor, Tensor, Tensor]:
        """Return ids with masks, where these are, and what stood there."""
        generator = torch.Generator().manual_seed(seed)
        positions = mask_words(word_starts(self.signs[pieces]), self.number, generator)
        return pieces.scatter(1, positions, 0), positions, pieces.gather(1, positions)

    def loss(self, model: nn.Module, step: int, seed: int) -> Tensor:
        """Mean loss of a batch, by number; every epoch has all pieces in another order."""
        per_epoch = len(self.train) // self.batch
        epoch, place = divmod(step, per_epoch)
        order = default_rng((seed, epoch)).permutation(len(self.train))
        chosen = torch.from_numpy(order[place * self.batch :][: self.batch])
        pieces = self.train[chosen.to(self.train.device)]
        ids, positions, truth = self.masked(pieces, seed * 10**7 + step)
        return F.cross_entropy(model(ids, positions).flatten(0, 1), truth.flatten())

    def held_out_batches(self) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Yield what every model is evaluated with, as `masked` returns it."""
        for draw in range(self.draws):
            for start in range(0, len(self.held_out), self.batch):
                seed = 10**12 + draw * 10**6 + start
                yield self.masked(self.held_out[start : start + self.batch], seed)

    @torch.no_grad()
    def evaluate(self, model: nn.Module) -> NDArray[np.float32]:
        """Losses `(draws, pieces, masks)`."""
        losses = [
            F.cross_entropy(model(ids, positions).mT, truth, reduction="none").cpu()
            for ids, positions, truth in self.held_out_batches()
        ]
        return torch.cat(losses).unflatten(0, (self.draws, -1)).numpy()


def word_groups(study: Words, block: int) -> dict[str, NDArray[np.bool_]]:
    """Return which masked tokens belong to each group, `(draws, pieces, masks)` bool.

    By the distance from the start of the masked word to that of the nearest word with the same
    letters, in any case, that no mask touches, to its left or right; "nowhere" if there is none.
    For each k, "hidden" are those that occur elsewhere, but only in blocks that the published
    coverage does not show to the block of the mask; "shown" are those whose nearest occurrence is
    more than 512 tokens away, and in a block that is shown.
    """
    numbers: dict[str, int] = {}
    pieces = [_number_words(piece, study.texts, numbers) for piece in study.texts.held_out]
    shown = {k: _shown_blocks(study.longest // block, k) for k in NEIGHBOURS}
    rows = [row for _, positions, _ in study.held_out_batches() for row in positions.cpu().numpy()]
    groups = defaultdict(list)
    for index, positions in enumerate(rows):
        starts, words = pieces[index % len(pieces)]
        masked = np.searchsorted(starts, positions, side="right") - 1
        for name, values in _groups_of_masks(starts, words, masked, shown, block).items():
            groups[name].append(values)
    shape = study.draws, len(pieces), -1
    return {name: np.stack(values).reshape(shape) for name, values in groups.items()}


def _number_words(piece: Ids, loaded: Texts, numbers: dict[str, int]) -> tuple[Ids, Ids]:
    """Return where words start, and a number for each, the same for the same letters in any case.

    The number is -1 for what has neither letters nor digits.
    """
    starts = np.flatnonzero(word_starts(torch.from_numpy(loaded.signs[piece])).numpy())
    words = []
    for tokens in np.split(loaded.strings[piece], starts[1:]):
        word = "".join(tokens).strip().casefold()
        is_word = any(character.isalnum() for character in word)
        words.append(numbers.setdefault(word, len(numbers)) if is_word else -1)
    return starts, np.array(words)


def _groups_of_masks(
    starts: Ids, words: Ids, masked: Ids, shown: dict[int, NDArray[np.bool_]], block: int
) -> dict[str, NDArray[np.bool_]]:
    """Return which masks of a piece belong to each group; `masked` has the word of each mask."""
    length = len(next(iter(shown.values()))) * block
    visible = words >= 0
    visible[masked] = False
    # Sorted by word, then by place: the occurrences of a word are a run.
    places = np.sort((words * length + starts)[visible])
    word, start = words[masked], starts[masked]
    first, last = (np.searchsorted(places, (word + one) * length) for one in (0, 1))
    counts = last - first
    mask = np.repeat(np.arange(len(masked)), counts)
    within = np.arange(counts.sum()) - np.repeat(counts.cumsum() - counts, counts)
    other = places[first[mask] + within] % length
    distances = np.abs(other - start[mask])
    nearest = np.full(len(masked), length)
    np.minimum.at(nearest, mask, distances)
    is_word, found = word >= 0, counts > 0
    ends = [0, *DISTANCES, length]
    groups = {"all": np.ones(len(masked), dtype=bool), "words": is_word}
    for name, (low, high) in zip(distance_names(), pairwise(ends), strict=True):
        groups[name] = found & (nearest > low) & (nearest <= high)
    groups |= {"beyond 512": found & (nearest > 512), "nowhere": is_word & ~found}
    for k, blocks in shown.items():
        seen = blocks[start[mask] // block, other // block]
        is_seen = np.bincount(mask, seen, len(masked)) > 0
        near_seen = np.bincount(mask, seen & (distances == nearest[mask]), len(masked)) > 0
        groups[f"hidden k={k}"] = found & ~is_seen
        groups[f"shown k={k}"] = groups["beyond 512"] & near_seen
    return groups


def _shown_blocks(num_blocks: int, k_neighbours: int) -> NDArray[np.bool_]:
    """Which blocks (columns) the published coverage shows to which (rows)."""
    shown = np.zeros((num_blocks, num_blocks), dtype=bool)
    for block, nodes in enumerate(select_nodes(num_blocks, k_neighbours, "paper")):
        for node in nodes:
            shown[block, node.start : node.start + node.num_blocks] = True
    return shown


def distance_names() -> list[str]:
    between = [f"{low}–{high}" for low, high in pairwise(DISTANCES)]
    return [f"up to {DISTANCES[0]}", *between, f"beyond {DISTANCES[-1]}"]


class Facts:
    """Facts and questions for them, in running text.

    A fact is one token, "key i has value j"; a question is one, "which value has key i?", and its
    label is j. The keys of a text are distinct, and each is asked for once.
    """

    def __init__(self, options: argparse.Namespace, device: str) -> None:
        loaded = Texts.load(options.data, options)
        self.streams = loaded.train.reshape(-1), loaded.held_out.reshape(-1)
        self.words, self.asked, self.device = options.words, options.asked, device
        self.fact = len(loaded.strings)
        self.ask = self.fact + self.words**2
        self.vocabulary, self.outputs = self.ask + self.words, self.words
        self.lengths, self.longest = options.lengths, options.lengths[-1]
        self.double_every, self.tokens = options.double_every, options.tokens
        self.distances, self.examples = options.distances, options.examples

    def texts(
        self, part: int, number: int, length: int, random: Generator, distance: int | None = None
    ) -> tuple[Ids, Ids, Ids, Ids]:
        """Make texts with facts and questions.

        Args:
            part: 0 to train with, 1 held out.
            number: of texts.
            length: of each, in tokens.
            random: decides.
            distance: From each fact to its question, in tokens, on either side; each its own if
                None, from 8 to the length, log-uniform in one case of two, else uniform.

        Returns:
            Ids `(number, length)`, and `(number, asked)` each: where questions are, where the facts
            are, and labels, `IGNORED` where another fact or question took the place of either.
        """
        stream, shape = self.streams[part], (number, self.asked)
        begins = random.integers(len(stream) - length, size=number)
        ids = stream[begins[:, None] + np.arange(length)].astype(np.int64)
        apart = np.where(
            random.random(shape) < 0.5,
            np.exp(random.uniform(math.log(8), math.log(length - 1), shape)),
            random.uniform(8, length - 1, shape),
        ).astype(np.int64)
        if distance is not None:
            apart[:] = distance
        left = (random.random(shape) * (length - apart)).astype(np.int64)
        fact_first = random.random(shape) < 0.5
        facts = np.where(fact_first, left, left + apart)
        questions = np.where(fact_first, left + apart, left)
        keys = random.permuted(np.tile(np.arange(self.words), (number, 1)), axis=1)
        keys = keys[:, : self.asked]
        values = random.integers(self.words, size=shape)
        planted = (
            (facts, self.fact + keys * self.words + values),
            (questions, self.ask + keys),
        )
        for places, tokens in planted:
            np.put_along_axis(ids, places, tokens, 1)
        intact = np.all(
            [np.take_along_axis(ids, places, 1) == tokens for places, tokens in planted], axis=0
        )
        return ids, questions, facts, np.where(intact, values, IGNORED)

    def loss(self, model: nn.Module, step: int, seed: int) -> Tensor:
        """Mean loss of a batch, by number: each length in turn, then the last three at random."""
        random = default_rng((seed, step))
        turn = step // self.double_every
        drawn = int(random.choice(self.lengths[-3:]))
        length = self.lengths[turn] if turn < len(self.lengths) else drawn
        ids, questions, _, labels = self.texts(0, max(1, self.tokens // length), length, random)
        return F.cross_entropy(*self._answers(model, ids, questions, labels), ignore_index=IGNORED)

    def held_out(self, distance: int) -> tuple[Ids, Ids, Ids, Ids]:
        """Return what every model is evaluated with at a distance, as `texts` does."""
        return self.texts(1, self.examples, self.longest, default_rng((1, distance)), distance)

    @torch.no_grad()
    def evaluate(self, model: nn.Module) -> NDArray[np.float32]:
        """Whether answers are right, `(distances, texts, questions)`; nan if there is no label."""
        size = max(1, self.tokens // self.longest)
        right = []
        for distance in self.distances:
            ids, questions, _, labels = self.held_out(distance)
            for start in range(0, len(ids), size):
                part = slice(start, start + size)
                logits, truth = self._answers(model, ids[part], questions[part], labels[part])
                found = (logits.argmax(-1) == truth).float()
                right.append(found.masked_fill(truth == IGNORED, math.nan).cpu())
        shape = len(self.distances), self.examples, self.asked
        return torch.cat(right).reshape(shape).numpy()

    def _answers(
        self, model: nn.Module, ids: Ids, questions: Ids, labels: Ids
    ) -> tuple[Tensor, Tensor]:
        tensors = [torch.from_numpy(x).to(self.device) for x in (ids, questions, labels)]
        return model(*tensors[:2]).flatten(0, 1), tensors[2].flatten()


def hidden_facts(study: Facts, block: int, k_neighbours: int) -> NDArray[np.bool_]:
    """Whether the published coverage hides a fact from its question, `(distances, texts, asked)`.

    It hides it from the block of the question in every layer; later layers may still learn of it
    by way of other blocks.
    """
    shown = _shown_blocks(study.longest // block, k_neighbours)
    hidden = []
    for distance in study.distances:
        _, questions, facts, _ = study.held_out(distance)
        hidden.append(~shown[questions // block, facts // block])
    return np.stack(hidden)


STUDIES: dict[str, Callable[[argparse.Namespace, str], Any]] = {"words": Words, "facts": Facts}
