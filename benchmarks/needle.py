"""Facts planted in books: how often models recall them, by the length of the text.

    python benchmarks/needle.py            # train, measure, print, save results/needle.json
    python benchmarks/needle.py --plot     # draw docs/images/needle.png from the results
    python benchmarks/needle.py --smoke    # tiny models and texts, under a minute on a CPU

"The archive code of Lokami is rudeso." Eight such facts, with made-up names and codes, and eight
questions of QMSum stand at random places of a book. In front of it four of the facts are asked for:
"The archive code of Lokami is <mask>." An answer is one of 64 codes, and one of the eight in the
text: a model that finds codes but not names is right once in eight. Training is on windows of War
and Peace, of 512 to 4,096 tokens, and the test on windows of Moby-Dick.

Three T5 encoders are trained from scratch, with the same number of parameters, on the same batches,
for the same number of steps: VCC with the question as VIP tokens; LongT5's window attention, its
window as wide as VCC's segments; and T5's full attention. The last reads only
the beginning of the text, and all of it up to --full-to tokens. In training, a second loss asks at
each code and at each mask whose it is; without it, learning to distinguish the facts takes longer.

Models alternate every --every steps, so that they have taken the same number when --minutes are
over. An interrupted run continues when the command is repeated.
"""

import argparse
import gzip
import json
import math
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from numpy.random import Generator, default_rng
from numpy.typing import NDArray
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, Dataset

import report
import runs
from foveate.models.accelerate import speed_up
from foveate.models.vcc import VccT5Config, VccT5EncoderModel

HERE = Path(__file__).parent
RESULTS = report.RESULTS / "needle.json"
IMAGE = HERE.parent / "docs" / "images" / "needle.png"
TEMPORARY = Path(tempfile.gettempdir()) / "foveate"
WARM_UP = 200
WORKERS = 4  # data loading workers, with a GPU
PAD, MASK = "<pad>", "<mask>"
SMOKE = {
    "vocabulary": 1000,
    "words": 8,
    "facts": 4,
    "asked": 2,
    "queries": 1,
    "width": 64,
    "layers": 3,
    "segment": 128,
    "fine": 4,
    "train_lengths": [128, 256],
    "lengths": [128, 256, 512, 1024],
    "beginnings": [128, 256],
    "full_to": 1024,
    "tokens": 2048,
    "examples": 32,
    "rate": 2e-3,
    "steps": 60,
    "every": 20,
    "state": TEMPORARY / "needle-smoke",
    "results": TEMPORARY / "needle-smoke.json",
}

Ids = NDArray[np.int64]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=HERE.parents[1] / "shared" / "data")
    parser.add_argument("--vocabulary", type=int, default=8192)
    parser.add_argument("--words", type=int, default=64, help="number of names, and of codes")
    parser.add_argument("--facts", type=int, default=8, help="facts per text")
    parser.add_argument("--asked", type=int, default=4, help="facts asked for")
    parser.add_argument("--queries", type=int, default=8, help="queries of QMSum per text")
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--segment", type=int, default=512, help="VCC's segments, and the window")
    parser.add_argument("--fine", type=int, default=32, help="blocks VCC sees token by token")
    parser.add_argument("--train-lengths", type=int, nargs="+", default=[512, 1024, 2048, 4096])
    parser.add_argument("--lengths", type=int, nargs="+", default=[2**n for n in range(12, 18)])
    parser.add_argument("--beginnings", type=int, nargs="+", default=[512, 4096], help="tokens")
    parser.add_argument(
        "--full-to", type=int, default=32_768, help="maximum tokens with full attention"
    )
    parser.add_argument("--tokens", type=int, default=131_072, help="tokens per batch")
    parser.add_argument("--examples", type=int, default=128, help="test examples per length")
    parser.add_argument("--rate", type=float, default=1e-3)
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--every", type=int, default=250, help="steps per turn")
    parser.add_argument("--minutes", type=float, default=6.5, help="after which no turn begins")
    parser.add_argument(
        "--state", type=Path, default=TEMPORARY / "needle", help="folder of interrupted runs"
    )
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--smoke", action="store_true", help="run everything on tiny data")
    parser.add_argument("--plot", action="store_true", help="draw the picture from saved results")
    if "--smoke" in sys.argv:
        parser.set_defaults(**SMOKE)
    options = parser.parse_args()
    if options.plot:
        plot(options.results)
        return
    end = time.perf_counter() + 60 * options.minutes
    task = Task.from_options(options)
    learners = {name: Learner.from_options(name, options) for name in MODELS}
    for step in [*range(options.every, options.steps, options.every), options.steps]:
        for learner in learners.values():
            learner.train(step, task, options)
        if time.perf_counter() > end:
            break
    measure(learners, task, options)


# The task


@dataclass(frozen=True)
class Task:
    """Books as ids, and what is planted in them.

    Attributes:
        books: to train with, and to test with.
        queries: questions of QMSum, of at most 32 tokens.
        facts: `(names, codes, length)`, the sentence for every name and code.
        questions: `(names, length)`, with a mask in place of the code.
        names, codes: ids of them.
        name, mask: their places in a question.
        planted, distracting, asked: how many facts and queries a text has, and facts a question.
    """

    books: tuple[Ids, Ids]
    queries: list[Ids]
    facts: Ids
    questions: Ids
    names: Ids
    codes: Ids
    name: int
    mask: int
    planted: int
    distracting: int
    asked: int

    @classmethod
    def from_options(cls, options: argparse.Namespace) -> "Task":
        """Read the texts, invent words and train a tokenizer."""
        folder = options.data / "books"
        books = [_text(folder / f"{name}.txt.gz") for name in ("war_and_peace", "moby_dick")]
        meetings = _text(options.data / "qmsum" / "train.jsonl.gz").splitlines()
        queries = [
            query["query"] for meeting in meetings for query in json.loads(meeting)["queries"]
        ]
        words = _invent_words(2 * options.words, " ".join([*books, *queries]).lower())
        names = [word.capitalize() for word in words[::2]]
        codes = words[1::2]
        tokenizer = _tokenizer([books[0], *queries], [PAD, MASK, *names, *codes], options)

        def ids(text: str) -> list[int]:
            return tokenizer.encode(text).ids

        def fact(name: str, code: str) -> list[int]:
            return ids(f" The archive code of {name} is {code}.")

        questions = np.array([fact(name, MASK) for name in names])
        return cls(
            books=(np.array(ids(books[0])), np.array(ids(books[1]))),
            queries=[
                tokens for query in queries if len(tokens := np.array(ids(f" {query}"))) <= 32
            ],
            facts=np.array([[fact(name, code) for code in codes] for name in names]),
            questions=questions,
            names=np.array([tokenizer.token_to_id(name) for name in names]),
            codes=np.array([tokenizer.token_to_id(code) for code in codes]),
            name=list(questions[0]).index(tokenizer.token_to_id(names[0])),
            mask=list(questions[0]).index(tokenizer.token_to_id(MASK)),
            planted=options.facts,
            distracting=options.queries,
            asked=options.asked,
        )

    @property
    def question_length(self) -> int:
        """Tokens before the book."""
        return self.asked * self.questions.shape[1]

    @property
    def masks(self) -> list[int]:
        """Where answers are read."""
        return [*range(self.mask, self.question_length, self.questions.shape[1])]

    def owners(self, ids: Tensor) -> tuple[tuple[Tensor, Tensor], Tensor]:
        """Return the positions of codes and masks in a batch, and the index of each one's name."""
        owned = torch.tensor([*self.codes, self.questions[0, self.mask]], device=ids.device)
        batch, places = torch.isin(ids, owned).nonzero().unbind(1)
        names = ids[batch, places - (self.mask - self.name)]
        return (batch, places), names - int(self.names[0])

    def example(self, book: Ids, length: int, random: Generator) -> tuple[Ids, Ids]:
        """Ids `(length,)`, and which codes are asked for `(asked,)`."""
        names = random.choice(len(self.facts), self.planted, replace=False)
        codes = random.choice(len(self.codes), self.planted, replace=False)
        chosen = random.choice(len(self.queries), self.distracting, replace=False)
        pieces = [*self.facts[names, codes], *(self.queries[i] for i in chosen)]
        rest = length - self.question_length - sum(map(len, pieces))
        if rest < 0:
            raise ValueError(f"{length} tokens are too few for what is planted: {-rest} more")
        start = random.integers(len(book) - rest)
        places = np.sort(random.integers(rest + 1, size=len(pieces)))
        between = np.split(book[start : start + rest], places)
        random.shuffle(pieces)
        text = [part for pair in zip(between, [*pieces, []], strict=True) for part in pair]
        question = self.questions[names[: self.asked]].ravel()
        return np.concatenate([question, *text]).astype(np.int64), codes[: self.asked]


@dataclass(frozen=True)
class Batches(Dataset[tuple[Tensor, Tensor]]):
    """Batches by number, reproducible, each of one of the lengths."""

    task: Task
    book: int
    lengths: list[int]
    tokens: int

    def __getitem__(self, number: int) -> tuple[Tensor, Tensor]:
        random = default_rng((self.book, number))
        length = int(random.choice(self.lengths))
        book = self.task.books[self.book]
        examples = [self.task.example(book, length, random) for _ in range(self.size(length))]
        ids, answers = zip(*examples, strict=True)
        return torch.from_numpy(np.stack(ids)), torch.from_numpy(np.stack(answers))

    def size(self, length: int) -> int:
        """Examples in a batch of this length."""
        return max(1, self.tokens // length)

    def numbered(self, numbers: range, device: str) -> Iterator[list[Tensor]]:
        """Yield the batches of these numbers, prefetched by workers with a GPU."""
        workers = WORKERS if device == "cuda" else 0
        loader = DataLoader(self, None, sampler=numbers, num_workers=workers)
        for batch in loader:
            yield [tensor.to(device) for tensor in batch]


def _text(path: Path) -> str:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return file.read()


def _invent_words(count: int, text: str) -> list[str]:
    """Invent distinct words of three syllables that do not occur in the text."""
    random, words = default_rng(0), dict[str, None]()
    while len(words) < count:
        parts = zip(random.choice([*"dfklmnrstv"], 3), random.choice([*"aeiou"], 3), strict=True)
        word = "".join(letter for part in parts for letter in part)
        if word not in text:
            words[word] = None
    return list(words)


def _tokenizer(texts: list[str], special: list[str], options: argparse.Namespace) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=options.vocabulary,
        special_tokens=[AddedToken(word, lstrip=True) for word in special],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


# The models


def _sizes(options: argparse.Namespace) -> dict[str, Any]:
    return {
        "vocab_size": options.vocabulary,
        "d_model": options.width,
        "d_kv": 32,
        "d_ff": 4 * options.width,
        "num_layers": options.layers,
        "num_heads": options.width // 32,
        "dropout_rate": 0.0,
    }


def vcc(options: argparse.Namespace) -> nn.Module:
    config = VccT5Config(
        **_sizes(options), segment_size=options.segment, num_fine_blocks=options.fine
    )
    return VccT5EncoderModel(config)


def window(options: argparse.Namespace) -> nn.Module:
    radius = options.segment // 2 - 1
    config = transformers.LongT5Config(
        **_sizes(options), encoder_attention_type="local", local_radius=radius
    )
    return speed_up(transformers.LongT5EncoderModel(config))


def full(options: argparse.Namespace) -> nn.Module:
    return speed_up(transformers.T5EncoderModel(transformers.T5Config(**_sizes(options))))


MODELS = {"VCC": vcc, "window": window, "full": full}


@dataclass(frozen=True)
class Learner:
    """A model in training: its optimizer, its log and the folder of its state."""

    name: str
    model: nn.Module
    optimizer: torch.optim.AdamW
    log: dict[str, Any]
    folder: Path
    device: str

    @classmethod
    def from_options(cls, name: str, options: argparse.Namespace) -> "Learner":
        """Build a model, or resume its training."""
        device = "cuda" if torch.cuda.is_available() else "cpu"
        torch.manual_seed(0)
        model = MODELS[name](options).to(device)
        optimizer = torch.optim.AdamW(model.parameters(), options.rate, weight_decay=0.01)
        folder = runs.run_folder(options.state, name)
        log = runs.resume(folder, model, optimizer)
        log["parameters"] = sum(parameter.numel() for parameter in model.parameters())
        return cls(name, model, optimizer, log, folder, device)

    def train(self, until: int, task: Task, options: argparse.Namespace) -> None:
        """Train up to a step, and save the state."""
        steps = range(self.log["step"], until)
        if not steps:
            return
        begun, losses = time.perf_counter(), []
        torch.manual_seed(steps.start)  # of VCC's exploring
        self.model.train()
        batches = Batches(task, 0, options.train_lengths, options.tokens)
        for step, (ids, answers) in zip(steps, batches.numbered(steps, self.device), strict=True):
            hidden_states = self.encode(task, ids)
            loss = cross_entropy(self.logits(hidden_states[:, task.masks], task.codes).mT, answers)
            owned, owners = task.owners(ids)
            owning = cross_entropy(self.logits(hidden_states[owned], task.names), owners)
            (loss + owning).backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            rate = min((step + 1) / WARM_UP, (options.steps - step) / (options.steps / 2), 1.0)
            self.optimizer.param_groups[0]["lr"] = options.rate * rate
            self.optimizer.step()
            self.optimizer.zero_grad(set_to_none=True)
            losses.append(loss.detach())
        point = {"step": until, "loss": round(float(torch.stack(losses).mean()), 4)}
        self.log["step"] = until
        self.log["seconds"] += time.perf_counter() - begun
        self.log["curve"].append(point)
        runs.save(self.folder, self.model, self.optimizer, self.log)
        print(f"{self.name}: {json.dumps(point)}, {self.log['seconds']:.0f} s", flush=True)

    @torch.no_grad()
    def count_right(
        self, task: Task, length: int, seen: int | None, options: argparse.Namespace
    ) -> dict[str, int]:
        """Count right answers in texts of a length, of which the first `seen` tokens are read."""
        self.model.eval()
        batches = Batches(task, 1, [length], options.tokens)
        numbers = range(math.ceil(options.examples / batches.size(length)))
        asked = right = 0
        for ids, answers in batches.numbered(numbers, self.device):
            hidden_states = self.encode(task, ids[:, :seen])[:, task.masks]
            asked += answers.numel()
            right += int((self.logits(hidden_states, task.codes).argmax(-1) == answers).sum())
        return {"tokens": length, "asked": asked, "right": right}

    def encode(self, task: Task, ids: Tensor) -> Tensor:
        """Encode ids `(batch, length)` as `(batch, length, d)` float32."""
        inputs = {"attention_mask": torch.ones_like(ids)}
        if self.name == "VCC":
            places = torch.arange(ids.shape[1], device=ids.device)
            inputs["vip_mask"] = (places < task.question_length).expand_as(ids)
        with torch.autocast(self.device, torch.bfloat16, enabled=self.device == "cuda"):
            return self.model(input_ids=ids, **inputs).last_hidden_state.float()

    def logits(self, hidden_states: Tensor, words: Ids) -> Tensor:
        """Score words `(…, words)` by their embeddings, for hidden states `(…, d)`."""
        embeddings = self.model.shared.weight[torch.from_numpy(words).to(hidden_states.device)]
        return hidden_states @ embeddings.mT * hidden_states.shape[-1] ** -0.5


# The results


def measure(learners: dict[str, Learner], task: Task, options: argparse.Namespace) -> None:
    """Test every model at every length, print the table and save it."""
    ways: dict[str, tuple[str, int | None]] = {"VCC": ("VCC", None), "window": ("window", None)}
    ways |= {f"full, first {seen:,}": ("full", seen) for seen in options.beginnings}
    ways["full, all"] = ("full", None)
    accuracy = {
        way: [
            learners[name].count_right(task, length, seen, options)
            for length in options.lengths
            if way != "full, all" or length <= options.full_to
        ]
        for way, (name, seen) in ways.items()
    }
    setting = {
        name: value
        for name, value in vars(options).items()
        if name not in ("data", "state", "results", "smoke", "plot", "minutes")
    }
    training = {name: learner.log for name, learner in learners.items()}
    results = {"setting": setting, "training": training, "accuracy": accuracy}
    report.save(options.results, results, "transformers", "tokenizers", "triton")
    header = ["parameters", "steps", "seconds", "loss"]
    rows = [
        [name, log["parameters"], log["step"], round(log["seconds"]), log["curve"][-1]["loss"]]
        for name, log in training.items()
    ]
    print(report.table(["model", *header], rows))
    empty = [None] * len(options.lengths)
    rows = [[way, *map(percent, counts), *empty[len(counts) :]] for way, counts in accuracy.items()]
    print(report.table(["right %", *(f"{length:,}" for length in options.lengths)], rows))


def percent(counted: dict[str, int]) -> str:
    return f"{100 * counted['right'] / counted['asked']:.1f}"


def plot(results: Path) -> None:
    from matplotlib.figure import Figure

    saved = json.loads(results.read_text())["results"]
    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    for way, counts in saved["accuracy"].items():
        points = [(counted["tokens"], float(percent(counted))) for counted in counts]
        axes.plot(*zip(*points, strict=True), marker="o", label=way)
    lengths = saved["setting"]["lengths"]
    axes.axhline(100 / saved["setting"]["facts"], color="gray", linestyle=":")
    axes.set(xlabel="tokens", ylabel="right answers, %", xscale="log", ylim=(0, 102))
    axes.set_xticks(lengths, [f"{length:,}" for length in lengths], rotation=30)
    axes.minorticks_off()
    axes.grid(alpha=0.3)
    axes.legend()
    IMAGE.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(IMAGE, dpi=110)


if __name__ == "__main__":
    main()
