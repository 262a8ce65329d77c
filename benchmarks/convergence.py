"""Masked language modelling from scratch (HDT, Figure 1b and Table 9): who learns faster?

    python benchmarks/convergence.py --prepare data.npz   # read the documents, train a tokenizer
    python benchmarks/convergence.py --data data.npz --minutes 6 --models hdt dense
    python benchmarks/convergence.py --plot               # draw docs/images/convergence.png

The texts are scientific papers, Python Enhancement Proposals, meetings and two novels; every
twentieth document is held out. Documents are cut into pieces of --length tokens. All models have
the same parameters, see the same pieces in the same order, and predict the same masked 15 % of
the tokens:

- hdt: tree attention with the documents' own sections;
- hdt, pseudo-sections: the same with 32 sentences to a section;
- longformer: the tokens without anchors, 256 to each side of a token and one global token;
- dense: the tokens without anchors, each of which attends to all.

The loss is measured on held-out pieces. Seconds are those of the training steps alone. A run that
is interrupted, or stopped by --minutes, continues when the command is repeated.
"""

import argparse
import gzip
import json
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import chain
from multiprocessing import Pool
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import report
import runs
from foveate import Document, DocumentError
from foveate.models.hdt import HDTConfig, HDTForMaskedLM
from foveate.ops.tree_attention import Tree
from foveate.ops.window_attention import GlobalKeysValues, window_attention
from foveate.preprocessing import HDTProcessor
from foveate.preprocessing.hdt import NODE_TYPES
from foveate.training.tokenizer import train_tokenizer

ROOT = Path(__file__).parents[1]
RESULTS = report.RESULTS / "convergence.json"
IMAGE = ROOT / "docs" / "images" / "convergence.png"
STATE = Path(tempfile.gettempdir()) / "foveate" / "convergence"
VOCABULARY = 16384
RATIO, RATE, WARM_UP = 0.15, 5e-4, 500
TOKEN, SENTENCE, SECTION, DOCUMENT = (
    NODE_TYPES[name] for name in ("token", "sentence", "section", "document")
)
MODELS = ("hdt", "hdt, pseudo-sections", "longformer", "dense")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--prepare", type=Path, metavar="FILE", help="write the data and stop")
    parser.add_argument("--documents", type=Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--limit", type=int, help="maximum documents of each kind to prepare")
    parser.add_argument(
        "--data", type=Path, help="file written by --prepare; prepared first without it"
    )
    parser.add_argument("--models", nargs="*", choices=MODELS, default=MODELS)
    parser.add_argument("--steps", type=int, default=6000, help="total number of steps")
    parser.add_argument(
        "--minutes", type=float, default=float("inf"), help="maximum minutes per model"
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
    options = parser.parse_args()
    if options.plot:
        plot(options.results)
        return
    file = options.prepare or options.data
    if file is None:
        file = options.state / "data.npz"
    if options.prepare or not file.exists():
        prepare(options.documents, file, options.limit)
    if options.prepare:
        return
    for name in options.models:
        train(name, file, options)
    gather(options)


# Documents


def records(folder: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield each kind of document with its lines or files."""
    for kind in ("scisummnet", "peps", "qmsum"):
        with gzip.open(folder / kind / "train.jsonl.gz", "rt", encoding="utf-8") as lines:
            yield kind, list(lines)
    yield "books", [str(path) for path in sorted((folder / "books").glob("*.txt.gz"))]


def read(kind_and_text: tuple[str, str]) -> Document | None:
    kind, text = kind_and_text
    if kind == "books":
        return Document.from_file(text)
    record = json.loads(text)
    if kind == "qmsum":
        return Document.from_text(text, format="json")
    if kind == "peps":
        try:
            return Document.from_text(record["text"], format=record["format"])
        except DocumentError:  # some are withdrawn and empty
            return None
    sections = [(section["heading"], section["sentences"]) for section in record["sections"]]
    return Document.from_sections(record["title"], [("Abstract", record["abstract"]), *sections])


def prepare(folder: Path, file: Path, limit: int | None) -> None:
    """Write the nodes of all documents: their ids and types, in reading order."""
    begun = time.perf_counter()
    texts = chain.from_iterable(
        ((kind, text) for text in texts[:limit]) for kind, texts in records(folder)
    )
    with Pool() as pool:
        documents = [document for document in pool.imap(read, texts, chunksize=8) if document]
    tokenizer = train_tokenizer(documents, VOCABULARY)
    processor = HDTProcessor(tokenizer)
    ids, types, sizes = [], [], []
    for document in documents:
        features = processor.features(document)
        ids.append(features["input_ids"].numpy().astype(np.uint16))
        types.append(features["node_types"].numpy().astype(np.int8))
        sizes.append(len(ids[-1]))
    file.parent.mkdir(parents=True, exist_ok=True)
    anchors = [processor.anchor_ids()[name] for name in ("document", "section")]
    np.savez_compressed(
        file,
        ids=np.concatenate(ids),
        types=np.concatenate(types),
        sizes=np.array(sizes),
        special=np.array([*anchors, tokenizer.mask_token_id, len(tokenizer)]),
    )
    tokens = sum(int((kinds == TOKEN).sum()) for kinds in types)
    seconds = time.perf_counter() - begun
    print(f"{len(documents)} documents, {tokens:,} tokens, {seconds:.0f} s: {file}", flush=True)


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
        self.length, self.device, self.flat = length, device, not name.startswith("hdt")
        ends = arrays["sizes"].cumsum()[:-1]
        documents = zip(np.split(arrays["ids"], ends), np.split(arrays["types"], ends), strict=True)
        parts: tuple[list[Nodes], list[Nodes]] = ([], [])
        for number, (ids, types) in enumerate(documents):
            if name == "hdt, pseudo-sections":
                ids, types = pseudo_sections(ids, types, section)
            parts[number % 20 == 0].extend(pieces(ids, types, length))
        self.train = [self._form(*piece) for piece in parts[0]]
        self.held_out = [self._form(*piece) for piece in parts[1][:held_out]]
        self._flat_forms: dict[int, tuple[Tree, Tensor]] = {}

    def _form(self, ids: np.ndarray, types: np.ndarray) -> tuple[Tensor, ...]:
        """Return the ids of nodes, their parents, and the positions of tokens."""
        places = np.flatnonzero(types == TOKEN)
        if self.flat:
            ids = np.concatenate([[self.root], ids[places]])
            above, places = np.zeros(len(ids)), np.arange(1, len(ids))
            above[0] = -1
        else:
            above = parents(types)
        return tuple(
            torch.from_numpy(values.astype(np.int64)).to(self.device)
            for values in (ids, above, places)
        )

    def batch(self, chosen: list[tuple[Tensor, ...]]) -> tuple[Tensor, Tree, Tensor]:
        """Return ids in level order, their tree, and each token's index, `(pieces, length)`."""
        ids, above, places = zip(*chosen, strict=True)
        if self.flat and len(chosen) in self._flat_forms:
            tree, index = self._flat_forms[len(chosen)]
            return tree.to_level_order(torch.cat(ids)), tree.in_level_order, index
        shifts = np.cumsum([0, *(len(piece) for piece in ids[:-1])]).tolist()
        forest = torch.cat(
            [
                parents.where(parents < 0, parents + shift)
                for parents, shift in zip(above, shifts, strict=True)
            ]
        )
        tree = Tree.from_parents(forest)
        tokens = torch.stack(
            [positions + shift for positions, shift in zip(places, shifts, strict=True)]
        )
        index = tree.to_level_index(tokens)
        if self.flat:  # always of the same shape
            self._flat_forms[len(chosen)] = tree, index
        return tree.to_level_order(torch.cat(ids)), tree.in_level_order, index


# Models: HDT, and its twins that see the tokens as one flat family.


class FlatAttention(nn.Module):
    """HDT's attention weights, applied to sequences of equal length that start with a root."""

    def __init__(self, tree_attention: nn.Module, attend: Callable) -> None:
        super().__init__()
        self.q, self.k, self.v, self.o = (getattr(tree_attention, name) for name in "qkvo")
        self.num_heads, self.attend = tree_attention.num_heads, attend

    def forward(self, hidden_states: Tensor, tree: Tree) -> Tensor:
        """Attend; in level order, the roots of all sequences come first."""
        batch = tree.level_sizes[0]
        q, k, v = (
            torch.cat([x[:batch, None], x[batch:].unflatten(0, (batch, -1))], dim=1)
            for x in (
                projection(hidden_states).unflatten(-1, (self.num_heads, -1))
                for projection in (self.q, self.k, self.v)
            )
        )
        out = self.attend(q, k, v).flatten(2)
        return self.o(torch.cat([out[:, 0], out[:, 1:].flatten(0, 1)]))


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


def build(name: str, vocabulary: int, layers: int, width: int) -> HDTForMaskedLM:
    torch.manual_seed(0)
    config = HDTConfig(
        vocab_size=vocabulary,
        d_model=width,
        d_kv=64,
        d_ff=4 * width,
        num_layers=layers,
        num_heads=max(1, width // 64),
        dropout_rate=0.0,
    )
    model = HDTForMaskedLM(config)
    if not name.startswith("hdt"):
        attend = {"dense": dense, "longformer": longformer}[name]
        for block in model.model.encoder.block:
            layer = block.layer[0]
            layer.SelfAttention = FlatAttention(layer.SelfAttention, attend)
    return model


def loss_of(model: HDTForMaskedLM, data: Data, chosen: list, seed: int) -> Tensor:
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
    encoded = model.model(ids[None], tree=tree).last_hidden_state[0]
    return F.cross_entropy(model.cls.predictions(encoded[masked_index]).float(), truth)


def train(name: str, file: Path, options: argparse.Namespace) -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    data = Data(file, name, options.length, options.held_out, device)
    model = build(name, data.vocabulary, options.layers, options.width).to(device)
    trained = [p for p in model.parameters() if p.requires_grad]
    print(
        f"{name}: {len(data.train)} pieces, {len(data.held_out)} held out, "
        f"{sum(p.numel() for p in trained) / 1e6:.1f} M parameters",
        flush=True,
    )
    optimizer = torch.optim.AdamW(
        trained, lr=RATE, betas=(0.9, 0.98), weight_decay=0.01, fused=device == "cuda"
    )
    folder = runs.run_folder(options.state, name)
    log = runs.resume(folder, model, optimizer)
    per_epoch = len(data.train) // options.batch
    if not per_epoch or not data.held_out:
        raise SystemExit("there are too few pieces: reduce --length or --batch")
    began, before = time.perf_counter(), log["seconds"]
    evaluating = 0.0

    def seconds() -> float:
        if device == "cuda":
            torch.cuda.synchronize()
        return before + time.perf_counter() - began - evaluating

    while log["step"] < options.steps and time.perf_counter() - began < 60 * options.minutes:
        epoch, place = divmod(log["step"], per_epoch)
        order = np.random.default_rng(epoch).permutation(len(data.train))
        chosen = [data.train[i] for i in order[place * options.batch :][: options.batch]]
        model.train()
        with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
            loss = loss_of(model, data, chosen, seed=log["step"])
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.param_groups[0]["lr"] = RATE * min(1.0, (log["step"] + 1) / WARM_UP)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        log["step"] += 1
        if log["step"] == 1:  # do not count what happens once, such as compiling kernels
            seconds()
            began = time.perf_counter()
        if log["step"] % options.every == 0:
            log["seconds"] = seconds()
            pause = time.perf_counter()
            point = {
                "step": log["step"],
                "seconds": round(log["seconds"], 2),
                "loss": round(held_out_loss(model, data, options.batch), 4),
            }
            log["curve"].append(point)
            print(name, json.dumps(point), flush=True)
            evaluating += time.perf_counter() - pause
    log["seconds"] = seconds()
    runs.save(folder, model, optimizer, log)


@torch.no_grad()
def held_out_loss(model: HDTForMaskedLM, data: Data, batch: int) -> float:
    model.eval()
    device = data.device
    losses = []
    with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
        for start in range(0, len(data.held_out), batch):
            chosen = data.held_out[start : start + batch]
            losses += [loss_of(model, data, chosen, seed=10**9 + start)] * len(chosen)
    return float(torch.stack(losses).mean())


def gather(options: argparse.Namespace) -> None:
    """Save and print the results of all models."""
    logs = runs.logs(options.state, MODELS)
    recipe = {key: getattr(options, key) for key in ("layers", "width", "length", "batch")}
    recipe |= {"masked": RATIO, "learning rate": RATE, "vocabulary": VOCABULARY}
    report.save(options.results, {"recipe": recipe, "models": logs})
    last = min(log["curve"][-1]["step"] for log in logs.values() if log["curve"])
    tokens = options.length * options.batch
    rows = []
    for name, log in logs.items():
        points = {point["step"]: point["loss"] for point in log["curve"]}
        per_step = log["seconds"] / max(1, log["step"])
        rows.append(
            [name, log["step"], points.get(last), f"{tokens / per_step:,.0f}", 1e3 * per_step]
        )
    print(report.table(["model", "steps", f"loss at {last}", "tokens/s", "ms a step"], rows))


def plot(results: Path) -> None:
    from matplotlib.figure import Figure

    models = json.loads(results.read_text())["results"]["models"]
    figure = Figure(figsize=(10, 4), layout="constrained")
    for axes, by in zip(figure.subplots(1, 2, sharey=True), ("step", "seconds"), strict=True):
        for name, log in models.items():
            points = [(point[by], point["loss"]) for point in log["curve"]]
            axes.plot(*zip(*points, strict=True), label=name)
        axes.set(xlabel={"step": "steps", "seconds": "seconds of training"}[by])
        axes.grid(alpha=0.3)
    figure.axes[0].set(ylabel="loss on held-out documents")
    figure.axes[0].legend()
    IMAGE.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(IMAGE, dpi=110)


if __name__ == "__main__":
    main()
