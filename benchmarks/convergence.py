"""Masked language modelling from scratch (HDT, Figure 1b and Table 9): who learns faster?

    python benchmarks/convergence.py --prepare data.npz --corpus corpus   # tokenize the documents
    python benchmarks/convergence.py --data data.npz --minutes 10 --gpus 0 1 2 3
    python benchmarks/convergence.py --data data.npz --rates-of a.json b.json --results seeds.json
    python benchmarks/convergence.py --docs --plot        # write saved results into the page

The corpus is what `training_corpus.py` writes: papers, Python Enhancement Proposals, technical
proposals, meetings and manuals; every twentieth document is held out. Documents are cut into pieces
of --length tokens. All models see the same pieces in the same order and predict the same masked
15 % of the tokens:

- true sections: HDT with the documents' own sections;
- pseudo-sections: HDT with 32 sentences to a section;
- Longformer: HDT's layers with rotary positions over the tokens without anchors, 256 to each side
  of a token and one global token;
- dense: the same, each token attending to all;
- HAT: as `hat.py` describes, with learned positions, which has a third more layers across segments.

torch.compile fuses HAT, and the rotary positions of Longformer and dense attention; HDT's own
kernels are what they are.

Each model trains with every learning rate for the same minutes on a GPU of its own, and with the
best of them with further seeds. With --rates-of, the best rates come from earlier files, and all
seeds run with them. The loss is measured on held-out pieces. Seconds are those of the training
steps alone, without the first ones. A run that is interrupted continues when the command is
repeated, and is named in the results. Losses are compared where all runs have arrived.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import report
import runs
from foveate.data import Corpus
from foveate.models.hdt import HDTConfig, HDTForMaskedLM
from foveate.models.hdt.modeling_hdt import HDTMaskedLMPredictions
from foveate.ops.tree_attention import Tree
from foveate.ops.window_attention import GlobalKeysValues, window_attention
from foveate.preprocessing import HDTProcessor
from foveate.preprocessing.tree import NODE_TYPES
from foveate.training.tokenizer import train_tokenizer
from hat import HATConfig, HATModel

RESULTS = report.RESULTS / "convergence.json"
RATES = (RESULTS, report.RESULTS / "convergence-0.002.json")
SEEDS = report.RESULTS / "convergence-seeds.json"
IMAGE = report.ROOT / "docs" / "images" / "convergence.png"
PAGE = report.ROOT / "docs" / "evidence" / "convergence.md"
STATE = Path(tempfile.gettempdir()) / "foveate" / "convergence"
VOCABULARY = 16384
TOKENIZED = 2000  # documents that the tokenizer is trained on
RATIO, WARM_UP = 0.15, 500
UNCOUNTED = 20  # the first steps, in which kernels are compiled
LEARNING_RATES = (2.5e-4, 5e-4, 1e-3)
SEGMENT = 128
TOKEN, SENTENCE, SECTION, DOCUMENT = (
    NODE_TYPES[name] for name in ("token", "sentence", "section", "document")
)
MODELS = ("true sections", "pseudo-sections", "Longformer", "dense", "HAT")
TREES = MODELS[:2]

Job = tuple[str, float, int]
"""A model, a learning rate and a seed."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--prepare", type=Path, metavar="FILE", help="write the data and stop")
    parser.add_argument("--corpus", type=Path, help="folder that training_corpus.py wrote")
    parser.add_argument("--limit", type=int, help="maximum documents to prepare")
    parser.add_argument("--data", type=Path, help="file written by --prepare")
    parser.add_argument("--models", nargs="*", choices=MODELS, default=MODELS)
    parser.add_argument("--rates", type=float, nargs="*", default=LEARNING_RATES)
    parser.add_argument(
        "--rates-of", type=Path, nargs="+", help="saved results that tried learning rates"
    )
    parser.add_argument("--seeds", type=int, default=3, help="seeds with the best learning rate")
    parser.add_argument("--minutes", type=float, default=10, help="of training, for each run")
    parser.add_argument(
        "--gpus", type=int, nargs="+", default=[0], help="one run at a time on each"
    )
    parser.add_argument("--every", type=int, default=200, help="steps between points of the curve")
    parser.add_argument("--length", type=int, default=4096, help="tokens per piece")
    parser.add_argument("--batch", type=int, default=16, help="pieces per step")
    parser.add_argument("--held-out", type=int, default=64, help="number of held-out pieces")
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--state", type=Path, default=STATE, help="folder of interrupted runs")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--plot", action="store_true", help="draw the picture from saved results")
    parser.add_argument("--docs", action="store_true", help="write saved results into the page")
    parser.add_argument("--worker", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.plot or options.docs:
        seeds = report.load(SEEDS)
        if options.docs:
            rates = [run for file in RATES for run in report.load(file)["runs"]]
            rates.sort(key=lambda run: (MODELS.index(run["model"]), run["rate"]))
            report.write_tables(
                PAGE, {"rates": run_table(rates), "seeds": run_table(seeds["runs"])}
            )
        if options.plot:
            plot(seeds)
    elif options.prepare:
        prepare(options.corpus, options.prepare, options.limit)
    elif options.worker:
        name, rate, seed = options.worker
        train((name, float(rate), int(seed)), options)
    elif options.rates_of:
        tried = [run for file in options.rates_of for run in report.load(file)["runs"]]
        best = {name: best_rate(name, tried) for name in options.models}
        run_all(with_seeds(best, range(options.seeds)), [], best, options)
    else:
        rates = [*product(options.models, options.rates, [0])]
        run_all(rates, [], {}, options)
        tried = collect(rates, options)
        best = {name: best_rate(name, tried) for name in options.models}
        run_all(with_seeds(best, range(1, options.seeds)), rates, best, options)


def with_seeds(best: dict[str, float], seeds: Iterable[int]) -> list[Job]:
    """Return the runs of every model with its best rate, all models with one seed first."""
    return [(name, rate, seed) for seed in seeds for name, rate in best.items()]


def run_all(
    jobs: Sequence[Job], earlier: Sequence[Job], best: dict[str, float], options: argparse.Namespace
) -> None:
    """Run jobs in processes, one at a time on each GPU, and save all results after each."""
    free: SimpleQueue[int] = SimpleQueue()
    for gpu in options.gpus:
        free.put(gpu)

    def run(job: Job) -> None:
        gpu = free.get()
        command = [
            sys.executable,
            __file__,
            "--worker",
            *map(str, job),
            "--data",
            str(options.data),
        ]
        for name in ("minutes", "every", "length", "batch", "held_out", "layers", "width", "state"):
            command += [f"--{name.replace('_', '-')}", str(getattr(options, name))]
        subprocess.run(command, check=False, env=os.environ | {"CUDA_VISIBLE_DEVICES": str(gpu)})
        free.put(gpu)
        gather([*earlier, *jobs], best, options)

    with ThreadPoolExecutor(len(options.gpus)) as pool:
        list(pool.map(run, jobs))


def run_name(job: Job) -> str:
    name, rate, seed = job
    return f"{name} rate {rate:g} seed {seed}"


def best_rate(name: str, tried: Sequence[dict[str, Any]]) -> float:
    """Return the learning rate of the finished run of a model that ended lowest."""
    losses = {
        run["rate"]: run["curve"][-1]["loss"]
        for run in tried
        if run["model"] == name and run.get("finished")
    }
    if not losses:
        raise SystemExit(f"no run of {name} finished: give more --minutes, or repeat the command")
    return min(losses, key=losses.__getitem__)


# Documents


def prepare(corpus: Path, file: Path, limit: int | None) -> None:
    """Write the nodes of all documents: their ids and types, in reading order."""
    begun = time.perf_counter()
    # Meetings are there several times; a copy in training of one held out would give it away.
    files = [file for file in corpus.glob("*.jsonl") if not file.stem.endswith(("_flat", "_2"))]
    examples = Corpus(sorted(files))
    order = np.random.default_rng(0).permutation(len(examples))[:limit]
    tokenizer = train_tokenizer([examples[i].document for i in order[:TOKENIZED]], VOCABULARY)
    processor = HDTProcessor(tokenizer)
    ids, types, sizes = [], [], []
    for i in order:
        features = processor.features(examples[i].document)
        ids.append(features["input_ids"].numpy().astype(np.uint16))
        types.append(features["node_types"].numpy().astype(np.int8))
        sizes.append(len(ids[-1]))
    file.parent.mkdir(parents=True, exist_ok=True)
    all_ids, all_types = np.concatenate(ids), np.concatenate(types)
    anchors = [all_ids[all_types == kind][0] for kind in (DOCUMENT, SECTION)]
    np.savez_compressed(
        file,
        ids=all_ids,
        types=all_types,
        sizes=np.array(sizes),
        special=np.array([*anchors, tokenizer.mask_token_id, len(tokenizer)]),
    )
    tokens = sum(int((kinds == TOKEN).sum()) for kinds in types)
    seconds = time.perf_counter() - begun
    print(f"{len(sizes)} documents, {tokens:,} tokens, {seconds:.0f} s: {file}", flush=True)


# Pieces: ids and types of nodes in reading order, a number of tokens with their anchors.

Nodes = tuple[np.ndarray, np.ndarray]


def latest(types: np.ndarray, kind: int) -> np.ndarray:
    """Position of the latest anchor of a kind, at or before each node."""
    return np.maximum.accumulate(np.where(types == kind, np.arange(len(types)), 0))


def parents(types: np.ndarray) -> np.ndarray:
    above = np.full(len(types), -1)
    for kind in (TOKEN, SENTENCE, SECTION):
        above = np.where(types == kind, latest(types, kind + 1), above)
    return above


def pieces(ids: np.ndarray, types: np.ndarray, length: int) -> Iterator[Nodes]:
    tokens = np.flatnonzero(types == TOKEN)
    anchors_of = [latest(types, kind) for kind in (SENTENCE, SECTION, DOCUMENT)]
    for start in range(0, len(tokens) - length + 1, length):
        chosen = tokens[start : start + length]
        nodes = np.unique(np.concatenate([chosen, *(anchors[chosen] for anchors in anchors_of)]))
        yield ids[nodes], types[nodes]


def pseudo_sections(ids: np.ndarray, types: np.ndarray, section_id: int) -> Nodes:
    """The same sentences, 32 to a section."""
    kept = types != SECTION
    ids, types = ids[kept], types[kept]
    before = np.flatnonzero(types == SENTENCE)[::32]
    return np.insert(ids, before, section_id), np.insert(types, before, SECTION)


class Data:
    """The pieces of all documents in the form that a model reads, on its device."""

    def __init__(self, file: Path, name: str, length: int, held_out: int, device: str) -> None:
        arrays = np.load(file)
        self.root, section, self.mask, self.vocabulary = arrays["special"].tolist()
        self.name, self.length, self.device = name, length, device
        ends = arrays["sizes"].cumsum()[:-1]
        documents = zip(np.split(arrays["ids"], ends), np.split(arrays["types"], ends), strict=True)
        parts: tuple[list[Nodes], list[Nodes]] = ([], [])
        for number, (ids, types) in enumerate(documents):
            if name == "pseudo-sections":
                ids, types = pseudo_sections(ids, types, section)
            parts[number % 20 == 0].extend(pieces(ids, types, length))
        self.train = [self._form(*piece) for piece in parts[0]]
        self.held_out = [self._form(*piece) for piece in parts[1][:held_out]]

    def _form(self, ids: np.ndarray, types: np.ndarray) -> tuple[Tensor, ...]:
        """Return ids and the places of tokens among them; of a tree, parents besides.

        Without a tree the tokens follow a root; for HAT a root begins each segment.
        """
        places = np.flatnonzero(types == TOKEN)
        if self.name in TREES:
            return self._tensors(ids, places, parents(types))
        tokens = ids[places]
        inner = SEGMENT - 1 if self.name == "HAT" else len(tokens)
        number = -(-len(tokens) // inner)
        ids = np.full((number, 1 + inner), self.root)
        index = np.arange(len(tokens))
        ids[index // inner, 1 + index % inner] = tokens
        return self._tensors(ids.flatten(), index // inner * (1 + inner) + 1 + index % inner)

    def _tensors(self, *columns: np.ndarray) -> tuple[Tensor, ...]:
        return tuple(torch.from_numpy(x.astype(np.int64)).to(self.device) for x in columns)

    def batch(self, chosen: list[tuple[Tensor, ...]]) -> tuple[Tensor, Tree | None, Tensor]:
        """Return ids `(nodes,)`, of trees in level order with their tree, and tokens' places.

        The places are `(pieces, length)`. Sequences have equal lengths.
        """
        ids, places, *above = zip(*chosen, strict=True)
        shifts = np.cumsum([0, *(len(piece) for piece in ids[:-1])]).tolist()
        index = torch.stack([its + shift for its, shift in zip(places, shifts, strict=True)])
        if not above:
            return torch.cat(ids), None, index
        pairs = zip(*above, shifts, strict=True)
        tree = Tree.from_parents(
            torch.cat([its.where(its < 0, its + shift) for its, shift in pairs])
        )
        return tree.to_level_order(torch.cat(ids)), tree.in_level_order, tree.to_level_index(index)


# Models: HDT, its twins that see sequences, and HAT.


class SequenceAttention(nn.Module):
    """HDT's attention weights with rotary positions, on sequences of equal length."""

    def __init__(self, tree_attention: nn.Module, length: int, attend: Callable) -> None:
        super().__init__()
        self.q, self.k, self.v, self.o = (getattr(tree_attention, name) for name in "qkvo")
        self.num_heads, self.attend = tree_attention.num_heads, attend
        head_dim = self.q.out_features // self.num_heads
        frequencies = 10_000.0 ** -(torch.arange(0, head_dim, 2) / head_dim)
        angles = torch.arange(length)[:, None] * frequencies
        self.register_buffer("cos", angles.cos()[:, None], persistent=False)
        self.register_buffer("sin", angles.sin()[:, None], persistent=False)

    def forward(self, hidden_states: Tensor, tree: None) -> Tensor:
        """Attend within sequences `(sequences * length, d_model)`."""
        q, k, v = (
            projection(hidden_states)
            .unflatten(0, (-1, len(self.cos)))
            .unflatten(-1, (self.num_heads, -1))
            for projection in (self.q, self.k, self.v)
        )
        q, k = (rotate(x, self.cos, self.sin) for x in (q, k))
        return self.o(self.attend(q, k, v).flatten(2).flatten(0, 1))


@torch.compile
def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotate pairs of channels of `(sequences, length, heads, head_dim)` by their positions."""
    a, b = x.chunk(2, dim=-1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1).to(x.dtype)


def dense(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    return F.scaled_dot_product_attention(q, k, v).transpose(1, 2)


def longformer(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    batch, length = q.shape[:2]
    is_global = torch.zeros(batch, length, dtype=torch.bool, device=q.device)
    is_global[:, 0] = True
    global_keys_values = GlobalKeysValues(k[:, 0], v[:, 0], [1] * batch)
    local = window_attention(
        *(x.flatten(0, 1) for x in (q, k, v)),
        (256, 256),
        global_keys_values=global_keys_values,
        masked_keys=is_global.flatten(),
        lengths=[length] * batch,
    )
    first = dense(q[:, :1], k, v)
    return torch.cat([first, local.unflatten(0, (batch, length))[:, 1:]], dim=1)


class NoPositions(nn.Module):
    """Leaves embeddings as they are."""

    def forward(self, embeddings: Tensor, tree: None) -> Tensor:
        return embeddings


class MaskedLM(nn.Module):
    """HDT or a twin of it with its head of masked language modelling."""

    def __init__(self, name: str, config: HDTConfig, length: int) -> None:
        super().__init__()
        hdt = HDTForMaskedLM(config)
        self.encoder, self.predictions = hdt.model.encoder, hdt.cls.predictions
        self.embeddings = hdt.model.shared
        if name in TREES:
            return
        self.encoder.embed_positions = NoPositions()
        attend = {"dense": dense, "Longformer": longformer}[name]
        for block in self.encoder.block:
            layer = block.layer[0]
            layer.SelfAttention = SequenceAttention(layer.SelfAttention, length + 1, attend)

    def forward(self, ids: Tensor, tree: Tree | None) -> Tensor:
        """Encode nodes `(nodes,)`."""
        encoded: Tensor = self.encoder(self.embeddings(ids), tree).last_hidden_state
        return encoded


class HATMaskedLM(nn.Module):
    """HAT with the same head."""

    def __init__(self, config: HDTConfig, length: int) -> None:
        super().__init__()
        number = -(-length // (SEGMENT - 1))
        self.hat = HATModel(
            HATConfig(
                config.vocab_size,
                hidden_size=config.d_model,
                intermediate_size=config.d_ff,
                num_hidden_layers=config.num_layers,
                num_attention_heads=config.num_heads,
                max_segments=number,
                cross_segment_every=3,
                dropout=0.0,
            )
        )
        self.hat.compile()
        self.num_tokens = number * SEGMENT
        self.predictions = HDTMaskedLMPredictions(config)
        self.predictions.decoder.weight = self.hat.word_embeddings.weight
        self.predictions.decoder.bias = self.predictions.bias
        nn.init.zeros_(self.predictions.bias)

    def forward(self, ids: Tensor, tree: None) -> Tensor:
        """Encode tokens `(tokens,)`; the padding of the last segment counts as tokens."""
        encoded: Tensor = self.hat(ids.unflatten(0, (-1, self.num_tokens))).last_hidden_state
        return encoded.flatten(0, 1)


def build(name: str, vocabulary: int, options: argparse.Namespace, seed: int) -> nn.Module:
    torch.manual_seed(seed)
    config = HDTConfig(
        vocab_size=vocabulary,
        d_model=options.width,
        d_kv=64,
        d_ff=4 * options.width,
        num_layers=options.layers,
        num_heads=max(1, options.width // 64),
        dropout_rate=0.0,
    )
    if name == "HAT":
        return HATMaskedLM(config, options.length)
    return MaskedLM(name, config, options.length)


def loss_of(model: nn.Module, data: Data, chosen: list, seed: int) -> Tensor:
    """Mean loss of the masked tokens, which depend on the seed and not on the model."""
    ids, tree, index = data.batch(chosen)
    rng = torch.Generator().manual_seed(seed)
    number = round(RATIO * data.length)
    masked = torch.rand(len(chosen), data.length, generator=rng).topk(number).indices
    fate = torch.rand(masked.numel(), generator=rng).to(data.device)
    random = torch.randint(data.vocabulary, (masked.numel(),), generator=rng).to(data.device)
    masked_index = index.gather(1, masked.to(data.device)).flatten()
    truth = ids[masked_index]
    kept = torch.where(fate < 0.9, random, truth)
    ids = ids.index_copy(0, masked_index, torch.where(fate < 0.8, data.mask, kept))
    return F.cross_entropy(model.predictions(model(ids, tree)[masked_index]).float(), truth)


def train(job: Job, options: argparse.Namespace) -> None:
    name, rate, seed = job
    device = "cuda" if torch.cuda.is_available() else "cpu"
    data = Data(options.data, name, options.length, options.held_out, device)
    model = build(name, data.vocabulary, options, seed).to(device)
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(
        trained, lr=rate, betas=(0.9, 0.98), weight_decay=0.01, fused=device == "cuda"
    )
    folder = runs.run_folder(options.state, run_name(job))
    log = runs.resume(folder, model, optimizer)
    if log.get("finished"):
        return
    log["parameters"] = sum(p.numel() for p in trained)
    log["pieces"] = [len(data.train), len(data.held_out)]
    per_epoch = len(data.train) // options.batch
    if not per_epoch or not data.held_out:
        raise SystemExit("there are too few pieces: reduce --length or --batch")
    began, before = time.perf_counter(), log["seconds"]
    evaluating = 0.0

    def seconds() -> float:
        if device == "cuda":
            torch.cuda.synchronize()
        return before + time.perf_counter() - began - evaluating

    while not log.get("finished"):
        epoch, place = divmod(log["step"], per_epoch)
        order = np.random.default_rng([seed, epoch]).permutation(len(data.train))
        chosen = [data.train[i] for i in order[place * options.batch :][: options.batch]]
        model.train()
        with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
            loss = loss_of(model, data, chosen, seed=10**6 * seed + log["step"])
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.param_groups[0]["lr"] = rate * min(1.0, (log["step"] + 1) / WARM_UP)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        log["step"] += 1
        if log["step"] == UNCOUNTED:
            seconds()
            began, evaluating = time.perf_counter(), 0.0
        if log["step"] % options.every == 0:
            log["seconds"] = seconds()
            log["finished"] = log["seconds"] > 60 * options.minutes
            pause = time.perf_counter()
            point = {
                "step": log["step"],
                "seconds": round(log["seconds"], 2),
                "loss": round(held_out_loss(model, data, options.batch), 4),
            }
            log["curve"].append(point)
            print(run_name(job), json.dumps(point), flush=True)
            runs.save(folder, model, optimizer, log)
            evaluating += time.perf_counter() - pause


@torch.no_grad()
def held_out_loss(model: nn.Module, data: Data, batch: int) -> float:
    model.eval()
    device = data.device
    losses = []
    with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
        for start in range(0, len(data.held_out), batch):
            chosen = data.held_out[start : start + batch]
            losses += [loss_of(model, data, chosen, seed=10**9 + start)] * len(chosen)
    return float(torch.stack(losses).mean())


def collect(jobs: Sequence[Job], options: argparse.Namespace) -> list[dict[str, Any]]:
    """Load the runs that have saved something."""
    logs = runs.logs(options.state, [run_name(job) for job in jobs])
    return [
        {"model": name, "rate": rate, "seed": seed, **logs[run_name((name, rate, seed))]}
        for name, rate, seed in jobs
        if run_name((name, rate, seed)) in logs
    ]


def gather(jobs: Sequence[Job], best: dict[str, float], options: argparse.Namespace) -> None:
    """Save the results of the runs, and print them."""
    found = collect(jobs, options)
    finished = {(run["model"], run["rate"], run["seed"]) for run in found if run.get("finished")}
    missing = [run_name(job) for job in jobs if job not in finished]
    keys = ("layers", "width", "length", "batch", "minutes", "seeds", "rates")
    recipe = {key: getattr(options, key) for key in keys}
    results = {
        "recipe": recipe | {"masked": RATIO, "vocabulary": VOCABULARY},
        "best rates": best,
        "runs": found,
    }
    if not best:
        missing.append("further seeds")
    report.save(options.results, results, missing=missing)
    if any(run["curve"] for run in found):
        print(f"\n{run_table(found)}")
        print(f"\n{seed_table(results)}")


def run_table(of: list[dict[str, Any]]) -> str:
    """Return every run's loss at equal steps and times.

    The learning rate does not fall, so that curves can be compared wherever all runs have arrived.
    """
    measured = [run for run in of if run["curve"]]
    steps, seconds = arrived(measured)
    rows = [
        [
            run["model"],
            f"{run['rate']:g}",
            run["seed"],
            f"{1e3 * run['seconds'] / run['step']:.1f}",
            f"{loss_at(run, 'step', steps):.3f}",
            f"{loss_at(run, 'seconds', seconds):.3f}",
        ]
        for run in measured
    ]
    header = ["", "learning rate", "seed", "ms a step", f"{steps:,} steps", f"{seconds:.0f} s"]
    return report.table(header, rows)


def seed_table(results: dict[str, Any]) -> str:
    """Return means over seeds of models that finished with every seed, with their best rates."""
    seeds, best = results["recipe"]["seeds"], results["best rates"]
    groups = {}
    for name, rate in best.items():
        group = [run for run in results["runs"] if (run["model"], run["rate"]) == (name, rate)]
        if len(group) == seeds and all(run.get("finished") for run in group):
            groups[name] = group
    if not groups:
        return ""
    steps, seconds = arrived([run for group in groups.values() for run in group])
    rows = [
        [
            name,
            f"{group[0]['rate']:g}",
            report.mean_and_deviation([loss_at(run, "step", steps) for run in group], digits=3),
            report.mean_and_deviation(
                [loss_at(run, "seconds", seconds) for run in group], digits=3
            ),
            report.mean_and_deviation([1e3 * run["seconds"] / run["step"] for run in group]),
            f"{group[0]['parameters'] / 1e6:.1f} M",
        ]
        for name, group in groups.items()
    ]
    header = [
        "",
        "learning rate",
        f"{steps:,} steps",
        f"{seconds:.0f} s",
        "ms a step",
        "parameters",
    ]
    return report.table(header, rows)


def arrived(measured: list[dict[str, Any]]) -> tuple[int, float]:
    """Return the step and the second at which all runs have arrived."""
    curves = [run["curve"] for run in measured]
    steps, seconds = (min(curve[-1][by] for curve in curves) for by in ("step", "seconds"))
    return steps, seconds


def loss_at(run: dict[str, Any], by: str, value: float) -> float:
    """Return a run's held-out loss at a step or second, between points on a line."""
    points = run["curve"]
    return float(np.interp(value, [x[by] for x in points], [x["loss"] for x in points]))


def plot(results: dict[str, Any]) -> None:
    """Draw the curves of all runs, those with the first seed as solid lines."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 4), layout="constrained")
    models = list(dict.fromkeys(run["model"] for run in results["runs"]))
    for axes, by in zip(figure.subplots(1, 2, sharey=True), ("step", "seconds"), strict=True):
        for run in results["runs"]:
            points = [(point[by], point["loss"]) for point in run["curve"]]
            axes.plot(
                *zip(*points, strict=True),
                color=f"C{models.index(run['model'])}",
                linestyle=("-", "--", ":")[run["seed"]],
                label=None if run["seed"] else f"{run['model']}, {run['rate']:g}",
                linewidth=1,
            )
        axes.set(xlabel={"step": "steps", "seconds": "seconds of training"}[by])
        axes.grid(alpha=0.3)
    figure.axes[0].set(ylabel="loss on held-out documents")
    handles = figure.axes[1].get_legend_handles_labels()
    figure.legend(*handles, loc="outside right center", fontsize="small")
    IMAGE.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(IMAGE, dpi=110)


if __name__ == "__main__":
    main()
