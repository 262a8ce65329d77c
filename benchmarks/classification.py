"""Is a document in its true order? HDT against dense attention and TF-IDF, five seeds.

    python benchmarks/classification.py --prepare FOLDER --corpus CORPUS   # tokenize the documents
    python benchmarks/classification.py --data FOLDER --minutes 8
    python benchmarks/classification.py --docs         # write saved results into the page

Papers, Python Enhancement Proposals and technical proposals, as `training_corpus.py` writes them,
are read without headings, which number the sections. Of each document, those first sections are
kept that have no more than 4,096 tokens together; it must have at least five, and 1,024 tokens.
Each document comes in three versions:

- true: as it was written;
- sections: all sections but the first in random order;
- sentences: the sentences of each section in random order.

The words of a document are the same in all three, so that counting single words cannot help; pairs
of words across the ends of sentences can. Every fifth document is held out.

- HDT reads the tokens as a tree, with rotary positions;
- dense is its twin: the same layers without anchors, with rotary positions, too, each token
  attending to all;
- both read the first 512 tokens, or all;
- "added positions" is HDT with its published positions, which are added to the embeddings;
- "sections marked" is dense attention that reads a token at the beginning of each section, as HDT
  does;
- the last three of `MODELS` are HDT with 32 sentences to a section, put together after shuffling:
  in both stages, or in one of them.

Each starts from masked language modelling on the true versions, for the same number of steps of as
many tokens, in pieces of the length that it will read. Then it learns to tell the three versions
apart, for the same number of steps with the same documents and shuffles, with each seed. The
baselines are logistic regression on TF-IDF of single tokens and pairs: of the whole text, of its
first 512 tokens, and with each quarter of the text as words of its own.

The accuracy is that of telling a held-out document in true order from the same one shuffled: of
the two classes, the likelier one counts. "Of two" is easier, and the usual measure of coherence:
how often of the two versions the true one looks truer. Chance is 50 % for both. Spread is over
seeds; intervals of differences are 95 % of a bootstrap over documents, of the mean over seeds.

Each model is a process. A run that is interrupted continues when the command is
repeated; a seed that has not finished is named in the results, and a model without all seeds is
left out of the tables.
"""

import argparse
import copy
import sys
import time
from collections.abc import Iterator, Sequence
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import report
import runs
import small_encoders
from document_nodes import SECTION, SENTENCE, TOKEN, Nodes, pieces, pseudo_sections
from foveate import Document
from foveate.data import Corpus
from foveate.preprocessing import HDTProcessor
from foveate.training.tokenizer import train_tokenizer
from small_encoders import (
    Documents,
    SmallEncoder,
    epochs,
    nodes_of,
    write_documents,
)

RESULTS = report.RESULTS / "classification.json"
PAGE = report.ROOT / "docs" / "evidence" / "classification.md"
CORPORA = ("papers", "peps", "proposals")
VOCABULARY, TOKENIZED = 16384, 2000
LEAST_SECTIONS, LEAST_TOKENS, MOST_TOKENS, SHORT = 5, 1024, 4096, 512
HELD_OUT = 5  # every fifth document
VERSIONS = ("true", "sections", "sentences")
KINDS = {
    "HDT": MOST_TOKENS,
    "HDT, added positions": MOST_TOKENS,
    "dense": MOST_TOKENS,
    "dense, 512 tokens": SHORT,
    "dense, sections marked": MOST_TOKENS,
    "HDT, pseudo-sections": MOST_TOKENS,
}
"""What is pretrained, and in pieces of how many tokens."""
MODELS = {
    "HDT, whole": ("HDT", MOST_TOKENS, False),
    "HDT, 512 tokens": ("HDT", SHORT, False),
    "HDT, added positions": ("HDT, added positions", MOST_TOKENS, False),
    "dense, whole": ("dense", MOST_TOKENS, False),
    "dense, 512 tokens": ("dense, 512 tokens", SHORT, False),
    "dense, sections marked": ("dense, sections marked", MOST_TOKENS, False),
    "HDT, pseudo-sections": ("HDT, pseudo-sections", MOST_TOKENS, True),
    "HDT, true sections, then pseudo": ("HDT", MOST_TOKENS, True),
    "HDT, pseudo-sections, then true": ("HDT, pseudo-sections", MOST_TOKENS, False),
}
"""What each model starts from, how many tokens it reads, and whether in pseudo-sections."""
TEXTS = ("TF-IDF, whole", "TF-IDF, 512 tokens", "TF-IDF, quarters")
RESAMPLES = 10_000
SMOKE = {
    "layers": 1,
    "width": 64,
    "tokens": 4096,
    "documents": 1,
    "steps": 2,
    "pretraining": 4,
    "minutes": 10,
    "seeds": 2,
    "models": list(MODELS),
    "limit": 15,
}


def main() -> None:
    parser = small_encoders.parser(__doc__.splitlines()[0], RESULTS, width=256)
    corpus = report.ROOT / "build" / "corpus"
    parser.add_argument("--corpus", type=Path, default=corpus, help="of training_corpus.py")
    parser.add_argument("--models", nargs="*", choices=MODELS, default=tuple(MODELS))
    parser.add_argument("--documents", type=int, default=6, help="in all versions, per step")
    parser.add_argument("--steps", type=int, default=300, help="of fine-tuning")
    parser.add_argument(
        "--rates", type=float, nargs=2, default=(1e-3, 3e-4), help="learning rates of both stages"
    )
    parser.add_argument("--pretraining", type=int, default=5000, help="steps, for each")
    parser.add_argument(
        "--minutes", type=float, default=8, help="of the whole, after which fine-tuning stops"
    )
    parser.add_argument("--seeds", type=int, default=5)
    small_encoders.run_script(parser, SMOKE, prepare, run_all, write_page)


def write_page(results: Path) -> None:
    """Write saved results into the page."""
    report.write_tables(PAGE, tables(report.load(results)))


# Documents


def prepare(options: argparse.Namespace, folder: Path) -> None:
    """Write the documents that are long enough, every fifth of each corpus as held out."""
    documents = {
        name: [
            without_headings(example.document)
            for example in islice(Corpus(options.corpus / f"{name}.jsonl"), options.limit)
        ]
        for name in CORPORA
    }
    everything = [document for its in documents.values() for document in its]
    order = np.random.default_rng(0).permutation(len(everything))[:TOKENIZED]
    processor = HDTProcessor(train_tokenizer((everything[i] for i in order), VOCABULARY))
    parts: dict[str, list[Nodes]] = {"training": [], "held_out": []}
    sources = []
    for name, its in documents.items():
        tokenized = (nodes_of(document, processor) for document in its)
        kept = (first_sections(nodes, MOST_TOKENS) for nodes in tokenized)
        for number, nodes in enumerate(nodes for nodes in kept if is_suitable(nodes)):
            is_held_out = number % HELD_OUT == 0
            parts["held_out" if is_held_out else "training"].append(nodes)
            if is_held_out:
                sources.append(CORPORA.index(name))
    write_documents(folder / "classification.xz", processor, parts, sources=np.array(sources))


def without_headings(document: Document) -> Document:
    """Return a document's sections one after the other, without title and headings."""
    sections = [
        ("", [sentence.text for part in section.paragraphs for sentence in part.sentences])
        for _, section in document.walk()
    ]
    return Document.from_sections("", [its for its in sections if its[1]], language="en")


def first_sections(nodes: Nodes, most_tokens: int) -> Nodes:
    """Return the sections that end within a number of tokens: a cut one would show its place."""
    ids, types = nodes
    starts = np.append(np.flatnonzero(types == SECTION), len(types))
    tokens_before = np.append(0, np.cumsum(types == TOKEN))[starts]
    end = starts[np.searchsorted(tokens_before, most_tokens, side="right") - 1]
    return ids[:end], types[:end]


def first_tokens(nodes: Nodes, number: int) -> Nodes:
    """Return a document to its `number`-th token."""
    ids, types = nodes
    tokens = np.flatnonzero(types == TOKEN)
    end = tokens[min(number, len(tokens)) - 1] + 1
    return ids[:end], types[:end]


def is_suitable(nodes: Nodes) -> bool:
    """Whether a document has enough tokens and sections."""
    _, types = nodes
    counts = (types == TOKEN).sum(), (types == SECTION).sum()
    return bool(counts[0] >= LEAST_TOKENS and counts[1] >= LEAST_SECTIONS)


def version(nodes: Nodes, name: str, rng: np.random.Generator) -> Nodes:
    """Return a version of a document."""
    ids, types = nodes
    section, sentence = np.cumsum(types == SECTION), np.cumsum(types == SENTENCE)
    if name == "sections":  # 0 is the document's anchor
        rank = np.arange(section[-1] + 1)
        while (rank[2:] == np.arange(2, len(rank))).all():
            rank[2:] = 2 + rng.permutation(len(rank) - 2)
        order = np.argsort(rank[section], kind="stable")
    elif name == "sentences":
        draw = np.where(types >= SECTION, -1.0, rng.random(sentence[-1] + 1)[sentence])
        order = np.lexsort((np.arange(len(ids)), draw, section))
    else:
        return nodes
    return ids[order], types[order]


def in_pseudo_sections(nodes: Nodes) -> Nodes:
    """Put every 32 sentences in a section."""
    ids, types = nodes
    return pseudo_sections(ids, types, int(ids[types == SECTION][0]))


def all_versions(documents: Sequence[Nodes], rng: np.random.Generator) -> list[Nodes]:
    """Return all versions of the first document, then of the next."""
    return [version(nodes, name, rng) for nodes in documents for name in VERSIONS]


# Training


class Classifier(nn.Module):
    """Tells the versions apart by the state of the root, and the mean of all states."""

    def __init__(self, encoder: SmallEncoder, length: int, width: int, *, pseudo: bool) -> None:
        super().__init__()
        self.encoder, self.length, self.pseudo = encoder, length, pseudo
        self.output = nn.Linear(2 * width, len(VERSIONS))

    def forward(self, documents: Sequence[Nodes]) -> Tensor:
        """Return logits `(documents, versions)`."""
        read = [first_tokens(nodes, self.length) for nodes in documents]
        if self.pseudo:
            read = [in_pseudo_sections(nodes) for nodes in read]
        device = self.output.weight.device
        batch = self.encoder.read(read, device.type)
        states = self.encoder(batch.ids, batch.structure)[batch.places].float()
        sizes = torch.tensor(batch.sizes, device=device)
        owner = torch.arange(len(sizes), device=device).repeat_interleave(sizes)
        sums = states.new_zeros(len(sizes), states.shape[1]).index_add(0, owner, states)
        roots = states[sizes.cumsum(0) - sizes]
        logits: Tensor = self.output(torch.cat([roots, sums / sizes[:, None]], dim=1))
        return logits


def run_all(options: argparse.Namespace) -> None:
    """Train all models, and save the results of the seeds that finished."""
    options.end = time.time() + 60 * options.minutes
    try:
        kinds = dict.fromkeys(MODELS[name][0] for name in options.models)
        runs.run_in_parallel(pretrain, [(kind, options) for kind in (*kinds, "TF-IDF")])
        runs.run_in_parallel(finetune, [(name, options) for name in options.models])
    finally:
        gather(options)


def new_encoder(kind: str, vocabulary: int, options: argparse.Namespace) -> SmallEncoder:
    """Build an encoder with random weights, the same in every run."""
    torch.manual_seed(0)
    return SmallEncoder(
        vocabulary,
        options.layers,
        options.width,
        position_embedding_type="hierarchical" if "added" in kind else "rotary",
        dense="dense" in kind,
        marks_sections="marked" in kind,
    )


def pretrain(kind: str, options: argparse.Namespace) -> None:
    """Pretrain one kind of encoder, or let the baselines do all they do."""
    data = Documents(options.data / "classification.xz")
    torch.set_num_threads(1)
    if kind == "TF-IDF":
        count_words(data, options)
        return
    device = "cuda" if torch.cuda.is_available() else "cpu"
    length = KINDS[kind]
    documents = data.part("training")
    if "pseudo" in kind:
        documents = [in_pseudo_sections(nodes) for nodes in documents]
    if length < MOST_TOKENS:
        documents = [piece for ids, types in documents for piece in pieces(ids, types, length)]
    sizes = [int((types == TOKEN).sum()) for _, types in documents]
    model = new_encoder(kind, data.vocabulary, options).to(device)

    def losses(step: int) -> Iterator[Tensor]:
        for chosen in epochs(sizes, options.tokens, 0, step):
            rng = np.random.default_rng([0, step])
            yield model.masked_loss([documents[i] for i in chosen], data.mask, rng)
            step += 1

    folder = runs.run_folder(options.state, f"pretraining {kind}")
    small_encoders.train(
        small_encoders.steps(options.pretraining),
        model,
        losses,
        folder,
        options.rates[0],
        falls=True,
        name=kind,
    )
    torch.save(model.state_dict(), folder / "weights.pt")


def finetune(name: str, options: argparse.Namespace) -> None:
    """Fine-tune one model with all seeds, as long as there is time."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.set_num_threads(1)
    kind, length, pseudo = MODELS[name]
    data = Documents(options.data / "classification.xz")
    training, held_out = data.part("training"), data.part("held_out")
    pretrained = new_encoder(kind, data.vocabulary, options)
    weights = runs.run_folder(options.state, f"pretraining {kind}") / "weights.pt"
    pretrained.load_state_dict(torch.load(weights, weights_only=True))
    for seed in range(options.seeds):
        file = options.state / f"{runs.run_folder(options.state, name).name}-{seed}.npz"
        if file.exists():
            continue
        torch.manual_seed(seed)
        encoder = copy.deepcopy(pretrained)
        model = Classifier(encoder, length, options.width, pseudo=pseudo).to(device)
        began = time.perf_counter()
        losses = train(model, training, seed, options)
        if losses is None:
            print(f"{name}, seed {seed}: no time left", flush=True)
            return
        seconds = time.perf_counter() - began
        logits = classify(model, held_out, options)
        np.savez(file, logits=logits, losses=losses, seconds=seconds)
        right = {other: f"{is_right(logits, other).mean():.3f}" for other in VERSIONS[1:]}
        print(f"{name}, seed {seed}: {right}, {seconds:.0f} s", flush=True)


def train(
    model: Classifier, documents: Sequence[Nodes], seed: int, options: argparse.Namespace
) -> list[float] | None:
    """Train a classifier; return the mean losses of twenty parts, or None if time is over."""
    device = model.output.weight.device.type
    trained = [p for n, p in model.named_parameters() if "predictions." not in n]
    optimizer = torch.optim.AdamW(trained, weight_decay=0.01, fused=device == "cuda")
    truth = torch.arange(len(VERSIONS), device=device).repeat(options.documents)
    losses = []
    batches = epochs([1] * len(documents), options.documents, seed, 0)
    model.train()
    for step in range(options.steps):
        chosen = next(batches)
        while len(chosen) < options.documents:  # the last of an epoch
            chosen = next(batches)
        rng = np.random.default_rng([seed, step])
        logits = model(all_versions([documents[i] for i in chosen], rng))
        loss = F.cross_entropy(logits, truth)
        loss.backward()
        nn.utils.clip_grad_norm_(trained, 1.0)
        done = step / options.steps
        optimizer.param_groups[0]["lr"] = options.rates[1] * min(10 * done, 1 - done)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.detach())
        if step % 20 == 0 and time.time() > options.end:
            return None
    parts = torch.stack(losses).tensor_split(20)
    return [round(float(part.mean()), 4) for part in parts if len(part)]


@torch.no_grad()
def classify(
    model: Classifier, documents: Sequence[Nodes], options: argparse.Namespace
) -> np.ndarray:
    """Return the logits of all versions of held-out documents: `(documents, versions, classes)`."""
    model.eval()
    found = []
    for start in range(0, len(documents), options.documents):
        some = documents[start : start + options.documents]
        found.append(model(held_out_versions(some, start)).cpu().unflatten(0, (len(some), -1)))
    return np.asarray(torch.cat(found).numpy())


def held_out_versions(documents: Sequence[Nodes], first: int) -> list[Nodes]:
    """Return all versions of held-out documents, the same for every model and seed."""
    return [
        nodes
        for number, document in enumerate(documents, first)
        for nodes in all_versions([document], np.random.default_rng([10**9, number]))
    ]


# Baselines


def count_words(data: Documents, options: argparse.Namespace) -> None:
    """Classify by logistic regression on TF-IDF of tokens."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    training, held_out = data.part("training"), data.part("held_out")
    known = [
        nodes
        for number, document in enumerate(training)
        for nodes in all_versions([document], np.random.default_rng([1, number]))
    ]
    classes = np.tile(np.arange(len(VERSIONS)), len(training))
    unknown = held_out_versions(held_out, 0)
    for name in TEXTS:
        file = options.state / f"{runs.run_folder(options.state, name).name}.npz"
        if file.exists():
            continue
        words = TfidfVectorizer(analyzer=ANALYZERS[name], min_df=5, sublinear_tf=True)
        model = make_pipeline(words, LogisticRegression(C=10.0, max_iter=100))
        model.fit(known, classes)
        logits = model.decision_function(unknown).reshape(len(held_out), len(VERSIONS), -1)
        file.parent.mkdir(parents=True, exist_ok=True)
        np.savez(file, logits=logits)
        right = {other: f"{is_right(logits, other).mean():.3f}" for other in VERSIONS[1:]}
        print(f"{name}: {right}", flush=True)


def single_and_pairs(nodes: Nodes) -> list[int]:
    """Return tokens, and pairs of tokens as further numbers."""
    tokens = tokens_of(nodes)
    return [*tokens, *(VOCABULARY * (1 + a) + b for a, b in pairwise(tokens))]


def beginning(nodes: Nodes) -> list[int]:
    """Return the same for the first 512 tokens."""
    return single_and_pairs(first_tokens(nodes, SHORT))


def by_quarter(nodes: Nodes) -> list[int]:
    """Return tokens, as other numbers in each quarter of the text."""
    tokens = tokens_of(nodes)
    return [4 * token + 4 * place // len(tokens) for place, token in enumerate(tokens)]


def tokens_of(nodes: Nodes) -> list[int]:
    """Return the tokens of a document without anchors."""
    ids, types = nodes
    found: list[int] = ids[types == TOKEN].tolist()
    return found


ANALYZERS = dict(zip(TEXTS, (single_and_pairs, beginning, by_quarter), strict=True))


# Results


def log_odds(logits: np.ndarray, other: str) -> tuple[np.ndarray, np.ndarray]:
    """Return how much likelier true order is than another, of the true version and of that one.

    Args:
        logits: `(..., documents, versions, classes)`.
        other: The other version, and class.

    Returns:
        Both `(..., documents)`.
    """
    index = VERSIONS.index(other)
    odds = logits[..., 0] - logits[..., index]
    return odds[..., 0], odds[..., index]


def is_right(logits: np.ndarray, other: str) -> np.ndarray:
    """Score whether a classifier recognizes which version of a document is not shuffled.

    The score is 0, 0.5 or 1, or between where classes are equally likely; the arguments are those
    of `log_odds`.
    """
    truly, shuffled = log_odds(logits, other)
    return np.asarray((2 + np.sign(truly) - np.sign(shuffled)) / 4)


def is_preferred(logits: np.ndarray, other: str) -> np.ndarray:
    """Return whether the true version looks truer than the other one; equal ones count half."""
    truly, shuffled = log_odds(logits, other)
    return np.asarray((1 + np.sign(truly - shuffled)) / 2)


def gather(options: argparse.Namespace) -> None:
    """Save the accuracies, the paired differences and what has not finished; print the tables."""
    sources = Documents(options.data / "classification.xz").arrays["sources"]
    found: dict[str, list[Any]] = {}
    missing = []
    for name in (*TEXTS, *MODELS):
        stem = runs.run_folder(options.state, name).name
        seeds = [""] if name in TEXTS else [f"-{seed}" for seed in range(options.seeds)]
        files = [options.state / f"{stem}{seed}.npz" for seed in seeds]
        if name in (*TEXTS, *options.models) or any(file.exists() for file in files):
            missing += [file.stem for file in files if not file.exists()]
        found[name] = [dict(np.load(file)) for file in files if file.exists()]
    keys = ("layers", "width", "tokens", "documents", "steps", "rates", "pretraining", "seeds")
    right = {
        (name, other): np.stack([is_right(run["logits"], other) for run in its])
        for name, its in found.items()
        if its
        for other in VERSIONS[1:]
    }
    preferred = {
        (name, other): [
            100 * float(is_preferred(run["logits"], other).mean()) for run in found[name]
        ]
        for name, other in right
    }
    results = {
        "recipe": {key: getattr(options, key) for key in keys} | {"vocabulary": VOCABULARY},
        "held out": {name: int((sources == i).sum()) for i, name in enumerate(CORPORA)},
        "pretraining": runs.logs(options.state, [f"pretraining {kind}" for kind in KINDS]),
        "fine-tuning": {
            name: [
                {"seconds": round(float(run["seconds"]), 1), "losses": run["losses"].tolist()}
                for run in its
            ]
            for name, its in found.items()
            if name in MODELS and its
        },
        "accuracy": [
            {
                "model": name,
                "against": other,
                "each seed": (100 * its.mean(1)).round(2).tolist(),
                "preferred": [round(value, 2) for value in preferred[name, other]],
                "by corpus": {
                    corpus: round(100 * float(its[:, sources == i].mean()), 2)
                    for i, corpus in enumerate(CORPORA)
                },
            }
            for (name, other), its in right.items()
        ],
        "differences": differences(right),
    }
    report.save(options.results, results, "transformers", "scikit-learn", missing=missing)
    for table in tables(results).values():
        print(f"\n{table}")


def differences(right: dict[tuple[str, str], np.ndarray]) -> list[dict[str, Any]]:
    """Compare HDT, reading all, to every other model on the same documents."""
    rng = np.random.default_rng(0)
    found = []
    ours, *theirs = (*MODELS, *TEXTS)
    for other in VERSIONS[1:]:
        for name in theirs:
            if not {(ours, other), (name, other)} <= right.keys():
                continue
            paired = 100 * (right[ours, other].mean(0) - right[name, other].mean(0))
            number = len(paired)
            weights = rng.multinomial(number, np.full(number, 1 / number), RESAMPLES) / number
            bounds = np.percentile(weights @ paired, [2.5, 97.5]).round(2).tolist()
            found.append(
                {
                    "against": other,
                    "of": ours,
                    "from": name,
                    "mean": round(float(paired.mean()), 2),
                    "interval": bounds,
                }
            )
    return found


def tables(results: dict[str, Any]) -> dict[str, str]:
    """Return the accuracies of models with all seeds, and HDT's differences from the others."""
    seeds = results["recipe"]["seeds"]
    whole = {
        name: [its for its in results["accuracy"] if its["model"] == name]
        for name in (*TEXTS, *MODELS)
    }
    finished = {
        name: its
        for name, its in whole.items()
        if its and (name in TEXTS or len(its[0]["each seed"]) == seeds)
    }
    if not finished:
        sys.exit("no model has finished")
    rows = [
        [
            name,
            *(report.mean_and_deviation(one["each seed"]) for one in its),
            *(report.mean_and_deviation(one["preferred"]) for one in its),
            ", ".join(f"{value:.1f}" for value in its[0]["each seed"]),
        ]
        for name, its in finished.items()
    ]
    header = ["", "sections", "sentences", "sections, of two", "sentences, of two"]
    found = {"accuracy": report.table([*header, "sections, each seed"], rows)}
    rows = [
        [
            its["against"],
            its["from"],
            f"{its['mean']:+.1f} ({its['interval'][0]:+.1f} to {its['interval'][1]:+.1f})",
        ]
        for its in results["differences"]
        if {its["of"], its["from"]} <= finished.keys()
    ]
    return found | {"differences": report.table(["shuffled", "HDT, whole, against", ""], rows)}


if __name__ == "__main__":
    main()
