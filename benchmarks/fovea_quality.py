"""What Fovea's attention learns: masked words, and facts by distance, against its peers.

    python benchmarks/fovea_quality.py --prepare data.npz.xz      # texts as tokens; needs no GPU
    python benchmarks/fovea_quality.py --data data.npz.xz --study words --minutes 6
    python benchmarks/fovea_quality.py --data data.npz.xz --study facts --minutes 4
    python benchmarks/fovea_quality.py --data data.npz.xz --study words --seeds 1 --arms ...
    python benchmarks/fovea_quality.py --docs                     # write the tables of the page

Ten encoders are trained from scratch: Fovea with k = 1, 2, 4 and both coverages; windows in which a
query sees as many keys, on average, as with Fovea of k = 1 and of k = 2 (full coverage); LongT5's
transient-global attention with as many keys as Fovea of k = 1; and T5's dense attention. They have
T5's relative position bias, equal depth and width, see the same batches with the same masks, and
take the same number of steps.

- words: masked language modelling on papers, proposals, meetings and novels, 15 % of the words
  masked. The loss on texts that were held out is reported by how far away the nearest visible
  occurrence of the masked word is, on either side, and by whether the published coverage hides all
  occurrences.
- facts: 16 facts stand in a text, each one token that means "key i has value j", and at a distance
  from each a token that asks for key i; the answer is one of 16 values. Lengths double during
  training. The share of right answers is reported by distance, and by whether the published
  coverage hides the fact from the block that asks.

Each arm is a process; all share one GPU and advance together, so that they have taken the same
number of steps whenever it is time for the learning rate to fall. That is when the rest of
--minutes is what a third of the steps taken so far still takes. Other seeds then take as many
steps. An interrupted run continues when the command is repeated.
"""

import argparse
import gzip
import io
import json
import lzma
import math
import multiprocessing
import re
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.random import Generator, default_rng
from numpy.typing import NDArray
from torch import Tensor, nn

import report
import runs
from foveate.ops.fovea_attention import COVERAGES, select_nodes

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "evidence" / "fovea.md"
TEMPORARY = Path(tempfile.gettempdir()) / "foveate"
MASKED = 0.15  # of the words
WARM_UP = 100  # steps
DECAY = 0.25  # of the steps, in which the learning rate falls to 0
IGNORED = -100  # label of a question that cannot be answered
SUMMARIZED = 16  # tokens that LongT5 sums up in one
RESAMPLES = 1000
NEIGHBOURS = (1, 2, 4)
DISTANCES = (128, 512, 1024, 2048)  # where the groups of masked words end
SMOKE = {
    "width": 32,
    "layers": 2,
    "block": 8,
    "length": 128,
    "tokens": 512,
    "lengths": [32, 64, 128],
    "double_every": 4,
    "asked": 4,
    "distances": [8, 16, 64],
    "examples": 4,
    "held_out": 4,
    "every": 4,
    "steps": 12,
    "processes": 2,
    "reserve": 0,
    "state": TEMPORARY / "fovea_quality-smoke",
    "results": TEMPORARY / "fovea_quality-smoke",
}

Ids = NDArray[np.integer]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--prepare", type=Path, metavar="FILE", help="write the texts and stop")
    parser.add_argument("--documents", type=Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument(
        "--pieces", type=int, default=3000, help="maximum pieces to train with, prepared"
    )
    parser.add_argument("--vocabulary", type=int, default=8192)
    parser.add_argument("--data", type=Path, help="the file that --prepare wrote")
    parser.add_argument("--study", choices=STUDIES, default="words")
    parser.add_argument("--arms", nargs="+", choices=ARMS, default=list(ARMS), metavar="ARM")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--steps", type=int, help="steps in all; as --minutes allow without it")
    parser.add_argument("--minutes", type=float, default=6.0, help="everything included")
    parser.add_argument(
        "--reserve", type=float, default=40.0, help="seconds of --minutes for the evaluation"
    )
    parser.add_argument("--processes", type=int, default=10, help="runs side by side")
    parser.add_argument("--every", type=int, default=50, help="steps between points of the curve")
    parser.add_argument("--save-every", type=float, default=120, help="seconds between savings")
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--head", type=int, default=64, help="channels of a head")
    parser.add_argument("--block", type=int, default=64, help="tokens in a block of Fovea")
    parser.add_argument("--rate", type=float, default=1e-3, help="highest learning rate")
    parser.add_argument("--tokens", type=int, default=32_768, help="tokens per step")
    parser.add_argument("--length", type=int, default=4096, help="words: tokens of a piece")
    parser.add_argument("--held-out", type=int, help="words: maximum held-out pieces of each kind")
    parser.add_argument("--draws", type=int, default=2, help="words: masks of each held-out piece")
    parser.add_argument(
        "--lengths", type=int, nargs="+", default=[512, 1024, 2048, 4096, 8192], help="facts"
    )
    parser.add_argument("--double-every", type=int, default=200, help="facts: steps per length")
    parser.add_argument("--asked", type=int, default=16, help="facts, and questions, in a text")
    parser.add_argument("--words", type=int, default=16, help="number of keys, and of values")
    parser.add_argument(
        "--distances",
        type=int,
        nargs="+",
        default=[64, 128, 256, 512, 1024, 2048, 4096, 6144],
        help="facts: at which right answers are counted, in texts of the last length",
    )
    parser.add_argument("--examples", type=int, default=64, help="facts: texts per distance")
    parser.add_argument("--state", type=Path, default=TEMPORARY / "fovea_quality")
    parser.add_argument("--results", type=Path, default=report.RESULTS, help="folder")
    parser.add_argument("--smoke", action="store_true", help="tiny models, for a CPU")
    parser.add_argument("--docs", action="store_true", help="write the tables from saved results")
    if "--smoke" in sys.argv:
        parser.set_defaults(**SMOKE)
    options = parser.parse_args()
    if options.docs:
        from retrieval import write_tables  # needs what search needs

        write_tables(PAGE, tables(options.results))
    elif options.prepare:
        prepare(options.documents, options.prepare, options)
    elif options.data is None:
        parser.error("--data is needed: a file written by --prepare")
    else:
        conduct(options)


# Texts as tokens


def texts(folder: Path) -> Iterator[tuple[str, bool, list[str]]]:
    """Yield each kind of text, whether it is held out, and the documents."""
    for held_out, part, meetings in ((False, "train", "train"), (True, "dev", "val")):
        yield (
            "papers",
            held_out,
            [
                " ".join([paper["title"], *paper["abstract"], *_sentences(paper["sections"])])
                for paper in _records(folder / "scisummnet" / f"{part}.jsonl.gz")
            ],
        )
        yield (
            "proposals",
            held_out,
            [record["text"] for record in _records(folder / "proposals" / f"{part}.jsonl.xz")],
        )
        yield (
            "meetings",
            held_out,
            [
                "\n".join(f"{turn['speaker']}: {turn['text']}" for turn in meeting["turns"])
                for meeting in _records(folder / "qmsum" / f"{meetings}.jsonl.gz")
            ],
        )
        book = "moby_dick" if held_out else "war_and_peace"
        with gzip.open(folder / "books" / f"{book}.txt.gz", "rt", encoding="utf-8") as file:
            yield "novels", held_out, [file.read()]
    peps = _records(folder / "peps" / "train.jsonl.gz")
    yield "PEPs", False, [record["text"] for record in peps]


def _records(path: Path) -> Iterator[dict[str, Any]]:
    read = lzma.open if path.suffix == ".xz" else gzip.open
    with read(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def _sentences(sections: list[dict[str, Any]]) -> Iterator[str]:
    for section in sections:
        yield section["heading"] or ""
        yield from section["sentences"]


def prepare(folder: Path, file: Path, options: argparse.Namespace) -> None:
    """Write pieces of --length tokens, none of which spans two documents, and the vocabulary.

    The tokenizer is trained on the documents to train with. Those are shuffled, and taken until
    there are --pieces; of the held-out ones, all are.
    """
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    kinds = {
        (kind, held_out): [re.sub(r"[^\S\n]+", " ", text) for text in documents]
        for kind, held_out, documents in texts(folder)
    }
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=options.vocabulary,
        special_tokens=["<mask>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    learned = (
        document for (_, out), documents in kinds.items() if not out for document in documents
    )
    tokenizer.train_from_iterator(learned, trainer)
    train: list[list[Ids]] = []
    held_out, names = [], []
    for (kind, out), documents in kinds.items():
        encoded = tokenizer.encode_batch_fast(documents)
        for document in encoded:
            ids = np.array(document.ids, dtype=np.uint16)
            pieces = [
                ids[start : start + options.length]
                for start in range(0, len(ids) - options.length + 1, options.length)
            ]
            if out:
                held_out += pieces
                names += [kind] * len(pieces)
            elif pieces:
                train.append(pieces)
    order = default_rng(0).permutation(len(train))
    chosen = [piece for i in order for piece in train[i]][: options.pieces]
    strings = [tokenizer.decode([token]) for token in range(tokenizer.get_vocab_size())]
    buffer = io.BytesIO()
    np.savez(
        buffer,
        train=np.stack(chosen),
        held_out=np.stack(held_out),
        kinds=np.array(names),
        strings=np.array(strings),
    )
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(lzma.compress(buffer.getvalue(), preset=6))
    print(
        f"{len(chosen)} pieces to train with, {len(held_out)} held out, of {options.length} "
        f"tokens; {file.stat().st_size / 1e6:.1f} MB: {file}"
    )


@dataclass(frozen=True)
class Texts:
    """What `prepare` wrote.

    Attributes:
        train: `(pieces, length)` ids; 0 is the mask.
        held_out: The same, of documents that are not trained with.
        kinds: `(pieces,)`, what each held-out piece is.
        strings: `(vocabulary,)`, the text of each token.
    """

    train: Ids
    held_out: Ids
    kinds: NDArray[np.str_]
    strings: NDArray[np.str_]

    @classmethod
    def load(cls, path: Path, options: argparse.Namespace) -> "Texts":
        """Load a file, and cut its pieces to --length."""
        with lzma.open(path) as file:
            arrays = dict(np.load(io.BytesIO(file.read())))
        if options.length > arrays["train"].shape[1]:
            raise SystemExit(f"{path} has pieces of {arrays['train'].shape[1]} tokens: too short")
        kept = _first_of_each(arrays["kinds"], options.held_out)
        return cls(
            arrays["train"][:, : options.length],
            arrays["held_out"][kept, : options.length],
            arrays["kinds"][kept],
            arrays["strings"],
        )

    @property
    def signs(self) -> NDArray[np.int64]:
        """Whether each token begins with letters, digits or others (0, 1, 2), + 3 after a space."""
        first = [string.lstrip(" ")[:1] for string in self.strings]
        sign = [1 if c.isdigit() else 0 if c.isalpha() or c > "\x7f" else 2 for c in first]
        spaced = [3 * string.startswith(" ") for string in self.strings]
        return np.array(sign) + np.array(spaced)


def _first_of_each(kinds: NDArray[np.str_], number: int | None) -> NDArray[np.intp]:
    """Indices of the first pieces of each kind, all if the number is None."""
    chosen = [np.flatnonzero(kinds == kind)[:number] for kind in np.unique(kinds)]
    return np.sort(np.concatenate(chosen))


def word_starts(signs: Tensor) -> Tensor:
    """Return where words start, bool; `signs` `(…, length)` as `Texts.signs`.

    A word starts after a space, and where letters, digits and others meet.
    """
    differ = signs[..., 1:] % 3 != signs[..., :-1] % 3
    starts = torch.ones_like(signs, dtype=torch.bool)
    starts[..., 1:] = differ | (signs[..., 1:] >= 3)
    return starts


def mask_words(starts: Tensor, number: int, generator: torch.Generator) -> Tensor:
    """Choose whole words at random until they have a number of tokens; the last may be cut.

    Args:
        starts: `(batch, length)` bool, on any device.
        number: Tokens to mask in each sequence.
        generator: A generator of the CPU, so that all devices mask the same.

    Returns:
        Their positions, `(batch, number)`, sorted.
    """
    batch, length = starts.shape
    random = torch.rand(batch, length, generator=generator, dtype=torch.float64).to(starts.device)
    of_word = random.gather(1, starts.cumsum(1) - 1)
    tie = torch.arange(length, device=starts.device) * 1e-12  # words are cut at their end
    return (of_word - tie).topk(number).indices.sort().values


# Encoders


@dataclass(frozen=True)
class Arm:
    """An encoder to train: how it is built, and with how many keys.

    Attributes:
        attention: "fovea", "window", "transient-global" or "dense".
        k_neighbours: k of Fovea, or of the Fovea that has as many keys.
        coverage: of Fovea.
    """

    attention: str
    k_neighbours: int = 1
    coverage: str = "full"


ARMS = {
    f"Fovea k={k} {coverage}": Arm("fovea", k, coverage)
    for k in NEIGHBOURS
    for coverage in COVERAGES
} | {
    "window as k=1": Arm("window", 1),
    "window as k=2": Arm("window", 2),
    "transient-global": Arm("transient-global"),
    "dense": Arm("dense"),
}


def fovea_keys(length: int, block: int, k_neighbours: int, coverage: str) -> float:
    """Return the number of keys that a query of Fovea sees, on average over a sequence."""
    nodes = select_nodes(length // block, k_neighbours, coverage)
    return block * sum(map(len, nodes)) / len(nodes)


def window_keys(length: int, radius: int) -> float:
    """Return the number of keys in a window, on average over a sequence: ends have fewer."""
    radius = min(radius, length - 1)
    return 1 + 2 * radius - radius * (radius + 1) / length


def radius_for(keys: float, length: int) -> int:
    """Return the radius whose window has nearest to a number of keys."""
    return min(range(1, length), key=lambda radius: abs(window_keys(length, radius) - keys))


def keys_and_radius(arm: Arm, length: int, block: int) -> tuple[float, int | None]:
    """Return the keys that a query sees on average, and the radius of windows."""
    if arm.attention == "dense":
        return float(length), None
    keys = fovea_keys(length, block, arm.k_neighbours, arm.coverage)
    if arm.attention == "fovea":
        return keys, None
    summaries = length // SUMMARIZED if arm.attention == "transient-global" else 0
    radius = radius_for(keys - summaries, length)
    return window_keys(length, radius) + summaries, radius


class Reader(nn.Module):
    """An encoder, and a linear layer on those of its outputs that are asked for."""

    def __init__(self, arm: Arm, vocabulary: int, outputs: int, length: int, options: Any) -> None:
        super().__init__()
        from transformers import LongT5Config, LongT5EncoderModel, T5Config, T5EncoderModel

        from foveate.models.accelerate import speed_up
        from foveate.models.fovea import FoveaConfig, FoveaEncoderModel

        sizes = {
            "vocab_size": vocabulary,
            "d_model": options.width,
            "d_kv": options.head,
            "d_ff": 4 * options.width,
            "num_layers": options.layers,
            "num_heads": options.width // options.head,
            "dropout_rate": 0.0,
        }
        if arm.attention == "fovea":
            config = FoveaConfig(
                **sizes,
                block_size=options.block,
                k_neighbours=arm.k_neighbours,
                coverage=arm.coverage,
            )
            self.encoder: nn.Module = FoveaEncoderModel(config)
        elif arm.attention == "dense":
            self.encoder = speed_up(T5EncoderModel(T5Config(**sizes)))
        else:
            _, radius = keys_and_radius(arm, length, options.block)
            config = LongT5Config(
                **sizes,
                encoder_attention_type="local" if arm.attention == "window" else arm.attention,
                local_radius=radius,
                global_block_size=SUMMARIZED,
            )
            self.encoder = speed_up(LongT5EncoderModel(config))
        self.output = nn.Linear(options.width, outputs)

    def forward(self, ids: Tensor, positions: Tensor) -> Tensor:
        """Return `(batch, number, outputs)` at the positions `(batch, number)`, in float32."""
        cuda = ids.is_cuda
        with torch.autocast(ids.device.type, torch.bfloat16, enabled=cuda):
            states = self.encoder(input_ids=ids).last_hidden_state
            index = positions[..., None].expand(-1, -1, states.shape[-1])
            return self.output(states.gather(1, index)).float()


# Study 1: masked words


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
    for name, (low, high) in zip(_distance_names(), pairwise(ends), strict=True):
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


def _distance_names() -> list[str]:
    between = [f"{low}–{high}" for low, high in pairwise(DISTANCES)]
    return [f"up to {DISTANCES[0]}", *between, f"beyond {DISTANCES[-1]}"]


# Study 2: facts by distance


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


# Training: one process per arm and seed, and one that conducts them.


class Learner:
    """An arm in training: its study, its model and its log, saved in a folder."""

    def __init__(self, name: str, seed: int, options: argparse.Namespace) -> None:
        self.seed, self.options = seed, options
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.study = STUDIES[options.study](options, self.device)
        torch.manual_seed(seed)
        study = self.study
        self.model = Reader(ARMS[name], study.vocabulary, study.outputs, study.longest, options)
        self.model.to(self.device)
        self.optimizer = torch.optim.AdamW(
            self.model.parameters(),
            options.rate,
            betas=(0.9, 0.98),
            weight_decay=0.01,
            fused=self.device == "cuda",
        )
        self.folder = run_folder(options, name, seed)
        self.log = runs.resume(self.folder, self.model, self.optimizer)
        self.log["parameters"] = sum(p.numel() for p in self.model.parameters())

    def train(self, until: int, decay_from: int | None, steps: int | None) -> None:
        """Train up to a step; the learning rate falls from one step to another, if given."""
        begun, losses = time.perf_counter(), []
        self.model.train()
        for step in range(self.log["step"], until):
            rate = min(1.0, (step + 1) / WARM_UP)
            if decay_from is not None and steps is not None and step >= decay_from:
                rate *= (steps - step) / (steps - decay_from)
            loss = self.study.loss(self.model, step, self.seed)
            loss.backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimizer.param_groups[0]["lr"] = self.options.rate * rate
            self.optimizer.step()
            self.optimizer.zero_grad(set_to_none=True)
            losses.append(loss.detach())
        if losses:
            mean = round(float(torch.stack(losses).mean()), 4)
            self.log["curve"].append({"step": until, "loss": mean})
            self.log["step"] = until
            self.log["seconds"] += time.perf_counter() - begun

    def save(self) -> None:
        """Save model, optimizer and log."""
        runs.save(self.folder, self.model, self.optimizer, self.log)

    def finish(self) -> None:
        """Evaluate the model, save what it scores, then the log."""
        self.model.eval()
        self.folder.mkdir(parents=True, exist_ok=True)
        partial = self.folder / "partial.npy"
        np.save(partial, self.study.evaluate(self.model))
        partial.replace(self.folder / "scores.npy")
        self.log["finished"] = True
        self.save()


def run_folder(options: argparse.Namespace, name: str, seed: int) -> Path:
    return runs.run_folder(options.state / options.study, f"{name} {seed}".replace("=", ""))


def learn(connection: Connection, name: str, seed: int, options: argparse.Namespace) -> None:
    """Do what is asked, one message after another: a method of `Learner` and its arguments."""
    torch.set_num_threads(1)
    learner = Learner(name, seed, options)
    connection.send(learner.log)
    while True:
        try:
            method, *arguments = connection.recv()
        except EOFError:
            return
        getattr(learner, method)(*arguments)
        connection.send(learner.log)


class Players:
    """The processes of several runs; those that fail are left out from then on."""

    def __init__(self, names: list[tuple[str, int]], options: argparse.Namespace) -> None:
        context = multiprocessing.get_context("spawn")
        self.connections, self.logs = {}, {}
        for name, seed in names:
            ours, theirs = context.Pipe()
            process = context.Process(target=learn, args=(theirs, name, seed, options), daemon=True)
            process.start()
            theirs.close()
            self.connections[name, seed] = ours
        self._receive()

    def ask(self, method: str, *arguments: Any) -> None:
        """Have all of them do the same, and wait."""
        for run, connection in list(self.connections.items()):
            try:
                connection.send((method, *arguments))
            except OSError:
                self._leave_out(run)
        self._receive()

    def _receive(self) -> None:
        for run, connection in list(self.connections.items()):
            try:
                self.logs[run] = connection.recv()
            except (EOFError, OSError):
                self._leave_out(run)

    def _leave_out(self, run: tuple[str, int]) -> None:
        print(f"{run[0]}, seed {run[1]}, has failed", file=sys.stderr, flush=True)
        self.connections.pop(run).close()
        self.logs.pop(run, None)

    def close(self) -> None:
        for connection in self.connections.values():
            connection.close()


def conduct(options: argparse.Namespace) -> None:
    """Train and evaluate the runs that are not finished, and save the results after each group."""
    end = time.perf_counter() + 60 * options.minutes
    todo = [
        (name, seed)
        for seed in options.seeds
        for name in options.arms
        if not (run_folder(options, name, seed) / "scores.npy").exists()
    ]
    groups = math.ceil(len(todo) / options.processes)
    for group in range(groups):
        first, now = group * options.processes, time.perf_counter()
        players = Players(todo[first : first + options.processes], options)
        if train_together(players, now + (end - now) / (groups - group), options):
            players.ask("finish")
        else:
            players.ask("save")
        players.close()
        gather(options)
        if time.perf_counter() > end:
            break
    if not todo:
        gather(options)


def train_together(players: Players, end: float, options: argparse.Namespace) -> bool:
    """Train until the steps of the plan are taken, or the time is over; return which.

    The plan says where the learning rate begins to fall and where training ends. It is made once
    for a study: by --steps, or else when no more than the falling fits before the end.
    """
    file = options.state / options.study / "plan.json"
    plan = json.loads(file.read_text()) if file.exists() else None
    if plan is None and options.steps:
        plan = {"decay_from": round(options.steps * (1 - DECAY)), "steps": options.steps}
        _write(file, plan)
    saved = time.perf_counter()
    rounds: list[float] = []  # seconds of each; the first compiles kernels
    while players.logs:
        steps = {log["step"] for log in players.logs.values()}
        step = min(steps)
        if plan and step >= plan["steps"]:
            return True
        begun = time.perf_counter()
        slowest = max(rounds[1:][-3:], default=0.0)
        if plan and begun + slowest > end - options.reserve:
            return False
        until = step + options.every
        if plan:
            until = min(until, plan["steps"])
            players.ask("train", until, plan["decay_from"], plan["steps"])
        else:
            players.ask("train", until, None, None)
        now = time.perf_counter()
        rounds.append(now - begun)
        slowest = max(rounds[1:][-3:], default=0.0)
        losses = {name: log["curve"][-1]["loss"] for (name, _), log in players.logs.items()}
        print(f"{until} steps, {now - begun:.1f} s: {json.dumps(losses)}", flush=True)
        rest = math.ceil(until * DECAY / (1 - DECAY))
        left = end - options.reserve - now
        if plan is None and slowest and left < (rest / options.every + 1) * slowest:
            steps_left = max(options.every, min(rest, int(left / slowest * options.every)))
            plan = {"decay_from": until, "steps": until + steps_left}
            _write(file, plan)
        if now - saved > options.save_every:
            players.ask("save")
            saved = time.perf_counter()
    return False


def _write(path: Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(value))
    partial.replace(path)


# Results


def gather(options: argparse.Namespace) -> None:
    """Save and print the results of all runs that are finished, and name those that are missing."""
    study = STUDIES[options.study](options, "cpu")
    logs, scores = {}, {}
    seeds = sorted({*options.seeds, *_saved_seeds(options)})
    for name in ARMS:
        for seed in seeds:
            folder = run_folder(options, name, seed)
            if (folder / "scores.npy").exists():
                logs[name, seed] = json.loads((folder / "log.json").read_text())
                scores[name, seed] = np.load(folder / "scores.npy")
    asked = [(name, seed) for seed in options.seeds for name in options.arms]
    missing = [f"{name}, seed {seed}" for name, seed in asked if (name, seed) not in scores]
    measure = measure_words if options.study == "words" else measure_facts
    setting = {
        name: value
        for name, value in vars(options).items()
        if not isinstance(value, Path) and name not in _NO_SETTING
    }
    arms = {}
    for name, arm in ARMS.items():
        keys, radius = keys_and_radius(arm, study.longest, options.block)
        arms[name] = {
            "keys": round(keys, 1),
            "radius": radius,
            "runs": {
                seed: {key: logs[name, seed][key] for key in ("parameters", "step", "seconds")}
                | {"curve": logs[name, seed]["curve"]}
                for seed in seeds
                if (name, seed) in logs
            },
        }
    results = {
        "finished": not missing,
        "missing": missing,
        "setting": setting,
        "arms": arms,
        **(measure(study, scores, options) if scores else {}),
    }
    path = options.results / f"fovea_quality-{options.study}.json"
    partial = path.with_suffix(".partial")
    report.save(partial, results, "transformers", "triton")
    partial.replace(path)
    for name, table in tables(options.results).items():
        if name.startswith(options.study):
            print(f"{name}\n\n{table}\n", flush=True)


_NO_SETTING = {"smoke", "docs", "arms", "seeds", "minutes", "reserve", "processes", "save_every"}


def _saved_seeds(options: argparse.Namespace) -> set[int]:
    folders = (options.state / options.study).glob("*/scores.npy")
    return {int(path.parent.name.rsplit("_", 1)[1]) for path in folders}


Scores = dict[tuple[str, int], NDArray[np.float32]]


def mean_over_seeds(scores: Scores) -> dict[str, NDArray[np.float32]]:
    """Return the mean of each arm's scores over its seeds."""
    names = dict.fromkeys(name for name, _ in scores)
    return {
        name: np.mean([values for (other, _), values in scores.items() if other == name], axis=0)
        for name in names
    }


def mean_in_group(values: NDArray[Any], group: NDArray[np.bool_]) -> float | None:
    """Return the mean of the values in a group; nan is left out. None if there are none."""
    chosen = values[group & ~np.isnan(values)]
    return round(float(chosen.mean()), 5) if len(chosen) else None


def difference(
    a: NDArray[Any], b: NDArray[Any], group: NDArray[np.bool_], axes: tuple[int, ...]
) -> dict[str, float] | None:
    """Return the mean of a - b in a group with its 95 % interval.

    Args:
        a: Scores of one arm.
        b: Scores of another, of the same items.
        group: Which items count.
        axes: All axes but that of the pieces, or texts, which are drawn with replacement.
    """
    group = group & ~np.isnan(a - b)
    sums = np.where(group, a - b, 0).sum(axes, dtype=np.float64)
    counts = group.sum(axes)
    if not counts.sum():
        return None
    drawn = default_rng(0).integers(len(sums), size=(RESAMPLES, len(sums)))
    totals = counts[drawn].sum(1)
    means = sums[drawn].sum(1)[totals > 0] / totals[totals > 0]
    low, high = np.quantile(means, [0.025, 0.975])
    mean = sums.sum() / counts.sum()
    return {"mean": round(mean, 5), "low": round(low, 5), "high": round(high, 5)}


def compare(
    scores: Scores, groups: dict[str, NDArray[np.bool_]], axes: tuple[int, ...]
) -> list[dict[str, Any]]:
    """Compare pairs of arms in all groups, over the seeds that both have."""
    pairs = [(f"Fovea k={k} full", f"Fovea k={k} paper") for k in NEIGHBOURS]
    pairs += [(f"Fovea k={k} full", f"window as k={k}") for k in (1, 2)]
    pairs += [("Fovea k=1 full", "transient-global")]
    pairs += [(f"Fovea k={k} full", "dense") for k in NEIGHBOURS]
    pairs += [("Fovea k=2 full", "Fovea k=1 full"), ("Fovea k=4 full", "Fovea k=2 full")]
    compared = []
    for a, b in pairs:
        seeds = sorted(
            {seed for name, seed in scores if name == a}
            & {seed for name, seed in scores if name == b}
        )
        if not seeds:
            continue
        one, other = (np.mean([scores[name, seed] for seed in seeds], axis=0) for name in (a, b))
        found = {}
        for name, group in groups.items():
            found[name] = difference(one, other, group, axes)
            if found[name] is not None:
                both = group & ~np.isnan(one - other)
                found[name]["a"], found[name]["b"] = (mean_in_group(x, both) for x in (one, other))
                found[name]["by seed"] = [
                    mean_in_group(scores[a, seed] - scores[b, seed], group) for seed in seeds
                ]
        compared.append({"a": a, "b": b, "seeds": seeds, "difference": found})
    return compared


def measure_words(study: Words, scores: Scores, options: argparse.Namespace) -> dict[str, Any]:
    """Losses by group, nats per token, and how pairs of arms differ."""
    groups = word_groups(study, options.block)
    groups |= {
        kind: np.broadcast_to((study.texts.kinds == kind)[None, :, None], groups["all"].shape)
        for kind in np.unique(study.texts.kinds)
    }
    return {
        "pieces": {"train": len(study.train), "held out": len(study.held_out)},
        "tokens": {name: int(group.sum()) for name, group in groups.items()},
        "loss": {
            name: {group: mean_in_group(values, where) for group, where in groups.items()}
            for name, values in mean_over_seeds(scores).items()
        },
        "loss by seed": {
            f"{name}, seed {seed}": mean_in_group(values, groups["all"])
            for (name, seed), values in scores.items()
        },
        "differences": compare(scores, groups, (0, 2)),
    }


def measure_facts(study: Facts, scores: Scores, options: argparse.Namespace) -> dict[str, Any]:
    """Shares of right answers by distance and by what is hidden, and how pairs of arms differ."""
    shape = next(iter(scores.values())).shape
    groups = {"all": np.ones(shape, dtype=bool)}
    for i, distance in enumerate(study.distances):
        groups[str(distance)] = np.arange(shape[0])[:, None, None] == i
        groups[str(distance)] = np.broadcast_to(groups[str(distance)], shape)
    for k in NEIGHBOURS:
        hidden = hidden_facts(study, options.block, k)
        groups[f"hidden k={k}"], groups[f"shown k={k}"] = hidden, ~hidden
        for distance in study.distances:
            groups[f"hidden k={k}, {distance}"] = groups[str(distance)] & hidden
            groups[f"shown k={k}, {distance}"] = groups[str(distance)] & ~hidden
    answered = ~np.isnan(next(iter(scores.values())))
    return {
        "questions": {name: int((group & answered).sum()) for name, group in groups.items()},
        "right": {
            name: {group: mean_in_group(values, where) for group, where in groups.items()}
            for name, values in mean_over_seeds(scores).items()
        },
        "right by seed": {
            f"{name}, seed {seed}": mean_in_group(values, groups["all"])
            for (name, seed), values in scores.items()
        },
        "differences": compare(scores, groups, (0, 2)),
    }


def tables(folder: Path) -> dict[str, str]:
    """Return the tables of the studies that have results, by name."""
    found = {}
    for study, make in (("words", word_tables), ("facts", fact_tables)):
        path = folder / f"fovea_quality-{study}.json"
        results = json.loads(path.read_text())["results"] if path.exists() else {}
        if "differences" in results:
            found |= make(results)
    return found


def word_tables(results: dict[str, Any]) -> dict[str, str]:
    groups = ["all", *_distance_names(), "nowhere"]
    rows: list[list[Any]] = [["masked tokens", None, None]]
    rows[0] += [f"{results['tokens'][group]:,}" for group in groups]
    rows += [
        [name, *_keys_and_runs(results, name), *(_digits(loss[group], 3) for group in groups)]
        for name, loss in results["loss"].items()
    ]
    shown = ["all", "up to 128", "beyond 512"]
    compared = [
        [f"{pair['a']} − {pair['b']}", *(_interval(pair, group, 1, 3) for group in shown)]
        for pair in results["differences"]
    ]
    return {
        "words": report.table(["", "keys", "runs", *groups], rows),
        "words, differences": report.table(["", *shown], compared),
        "words, hidden": hidden_table(results, results["tokens"], 1, 3),
    }


def fact_tables(results: dict[str, Any]) -> dict[str, str]:
    distances = [str(distance) for distance in results["setting"]["distances"]]
    rows = [
        [
            name,
            *_keys_and_runs(results, name),
            *(_digits(right[group], 1, 100) for group in ("all", *distances)),
        ]
        for name, right in results["right"].items()
    ]
    compared = [
        [f"{pair['a']} − {pair['b']}", _interval(pair, "all", 100, 1)]
        for pair in results["differences"]
    ]
    headings = [f"{int(distance):,}" for distance in distances]
    return {
        "facts": report.table(["right %", "keys", "runs", "all", *headings], rows),
        "facts, differences": report.table(["", "right %"], compared),
        "facts, hidden": hidden_table(results, results["questions"], 100, 1),
    }


def hidden_table(
    results: dict[str, Any], numbers: dict[str, int], factor: float, digits: int
) -> str:
    """Compare both coverages where the published one hides something, and where it does not."""
    rows = []
    for pair in results["differences"]:
        k = pair["a"].split()[1]
        if pair["b"] != f"Fovea {k} paper":
            continue
        for what in ("hidden", "shown"):
            group = f"{what} {k}"
            found = pair["difference"][group] or {}
            values = (_digits(found.get(one), digits, factor) for one in ("b", "a"))
            rows.append(
                [k, what, f"{numbers[group]:,}", *values, _interval(pair, group, factor, digits)]
            )
    return report.table(["", "", "number", "paper", "full", "full − paper"], rows)


def _keys_and_runs(results: dict[str, Any], name: str) -> list[Any]:
    arm = results["arms"][name]
    return [f"{arm['keys']:,.0f}", len(arm["runs"])]


def _digits(value: float | None, digits: int, factor: float = 1) -> str | None:
    return None if value is None else f"{factor * value:.{digits}f}"


def _interval(pair: dict[str, Any], group: str, factor: float, digits: int) -> str | None:
    found = pair["difference"].get(group)
    if found is None:
        return None
    mean, low, high = (f"{factor * found[key]:+.{digits}f}" for key in ("mean", "low", "high"))
    return f"{mean} ({low} to {high})".replace("-", "−")


if __name__ == "__main__":
    main()
