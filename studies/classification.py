"""Is a document in its true order? HDT against HAT, Longformer, dense attention and TF-IDF.

    python studies/classification.py --prepare FOLDER --corpus CORPUS   # tokenize the documents
    python studies/classification.py --data FOLDER
    python studies/classification.py --docs         # write saved results into the page
    python studies/classification.py --smoke        # under two minutes on two cores

Papers, Python Enhancement Proposals and technical proposals, as `training_corpus.py` writes them,
are read without headings, which number the sections. Of each document, those first sections are
kept that have no more than 4,096 tokens together; it must have at least five, and 1,024 tokens.
Each document comes in three versions:

- true: as it was written;
- sections: all sections but the first in random order;
- sentences: the sentences of each section in random order.

The words of a document are the same in all three, so that counting single words cannot help; pairs
of words across the ends of sentences can. Every fifth document is held out. One in ten, the
development documents, serves to choose learning rates and penalties, and nothing is trained on it.

- HDT reads the tokens as a tree, with rotary positions;
- dense is its twin: the same layers without anchors, with rotary positions, too, each token
  attending to all;
- Longformer is dense with windows of 256 tokens to each side and a global first token;
- HAT has as many layers within segments of 128 tokens, two more over the segments, and rotary
  positions;
- HDT and dense read the first 512 tokens, or all;
- "added positions" is HDT with its published positions, which are added to the embeddings;
- "sections marked" is dense attention that reads a token at the beginning of each section, as HDT
  does; with "sentences marked", it reads one at the beginning of each sentence, too;
- the last three of `MODELS` are HDT with 32 sentences to a section, put together after shuffling:
  in both stages, or in one of them.

Each starts from masked language modelling on the true versions, for the same number of steps of as
many tokens, in pieces of the length that it will read, several times with other random numbers.
Each pretrained encoder then learns several times to tell the three versions apart, for the same
number of steps with the same documents and shuffles, at that of the --rates which does best on the
development documents after the first pretraining. The baselines are logistic regression on TF-IDF
of single tokens and pairs: of the whole text, of its first 512 tokens, and with each quarter of the
text as words of its own.

The accuracy is that of telling a held-out document in true order from the same one shuffled: of
the two classes, the likelier one counts. "Of two" is easier, and the usual measure of coherence:
how often of the two versions the true one looks truer. Chance is 50 % for both. Spread is over
pretrainings, each of which counts as the mean of its fine-tunings. Intervals of differences are
95 % of a bootstrap that draws documents and, for both models, pretrainings.

Each pretraining, each trial of a learning rate and each pretrained encoder that is fine-tuned is a
process, unless --processes share them, and those of a stage share the GPUs. A run that is
interrupted continues when the command is repeated; a fine-tuning that has not finished is named in
the results, and a model counts with those of its pretrainings that were fine-tuned.
"""

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import load_model, save_model
from torch import Tensor, nn

import runs
import small_encoders
from benchmarks import report
from classification_data import (
    CORPORA,
    MOST_TOKENS,
    VERSIONS,
    VOCABULARY,
    all_versions,
    first_tokens,
    held_out_versions,
    in_pseudo_sections,
    prepare,
)
from document_nodes import SECTION, SENTENCE, TOKEN, Nodes, pieces
from small_encoders import (
    Documents,
    MaskedLM,
    SmallEncoder,
    SmallHAT,
    dense,
    epochs,
    longformer,
)

RESULTS = report.STUDIES / "results" / "classification.json"
PSEUDO_RESULTS = report.STUDIES / "results" / "classification-pseudo.json"
"""An earlier run, which has the models that read pseudo-sections."""
PAGE = report.STUDIES / "classification.md"
SHORT = 512
RATES = (1e-4, 3e-4, 1e-3, 3e-3)
PENALTIES = (1.0, 10.0, 100.0)  # their inverses, as scikit-learn counts


class Kind(NamedTuple):
    """What is pretrained, in pieces of how many tokens, and whether in pseudo-sections."""

    new: Callable[..., MaskedLM]
    length: int = MOST_TOKENS
    pseudo: bool = False


KINDS = {
    "HDT": Kind(SmallEncoder),
    "HDT, added positions": Kind(partial(SmallEncoder, position_embedding_type="hierarchical")),
    "HAT": Kind(SmallHAT),
    "Longformer": Kind(partial(SmallEncoder, attend=longformer)),
    "dense": Kind(partial(SmallEncoder, attend=dense)),
    "dense, 512 tokens": Kind(partial(SmallEncoder, attend=dense), SHORT),
    "dense, sections marked": Kind(partial(SmallEncoder, attend=dense, marked=[SECTION])),
    "dense, sentences marked": Kind(
        partial(SmallEncoder, attend=dense, marked=[SECTION, SENTENCE])
    ),
    "HDT, pseudo-sections": Kind(SmallEncoder, pseudo=True),
}
MODELS = {
    "HDT, whole": ("HDT", MOST_TOKENS, False),
    "HDT, 512 tokens": ("HDT", SHORT, False),
    "HDT, added positions": ("HDT, added positions", MOST_TOKENS, False),
    "HAT, whole": ("HAT", MOST_TOKENS, False),
    "Longformer, whole": ("Longformer", MOST_TOKENS, False),
    "dense, whole": ("dense", MOST_TOKENS, False),
    "dense, 512 tokens": ("dense, 512 tokens", SHORT, False),
    "dense, sections marked": ("dense, sections marked", MOST_TOKENS, False),
    "dense, sentences marked": ("dense, sentences marked", MOST_TOKENS, False),
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
    "pretraining": 2,
    "minutes": 10,
    "pretrainings": 2,
    "seeds": 1,
    "models": list(MODELS),
    "rates": RATES[:2],
    "limit": 15,
    "processes": 2,  # a process takes seconds to start
}


def main() -> None:
    parser = small_encoders.parser(__doc__.splitlines()[0], RESULTS, width=256)
    corpus = report.ROOT / "build" / "corpus"
    parser.add_argument("--corpus", type=Path, default=corpus, help="of training_corpus.py")
    parser.add_argument("--models", nargs="*", choices=MODELS, default=tuple(MODELS))
    parser.add_argument("--documents", type=int, default=6, help="in all versions, per step")
    parser.add_argument("--steps", type=int, default=300, help="of fine-tuning")
    parser.add_argument("--rate", type=float, default=1e-3, help="of learning, in pretraining")
    parser.add_argument(
        "--rates", type=float, nargs="+", default=RATES, help="of which fine-tuning has the best"
    )
    parser.add_argument("--pretraining", type=int, default=5000, help="steps, for each")
    parser.add_argument(
        "--minutes", type=float, default=30, help="of the whole, after which fine-tuning stops"
    )
    parser.add_argument(
        "--processes", type=int, help="that share the runs of a stage; by default each has its own"
    )
    parser.add_argument("--pretrainings", type=int, default=3, help="of each kind of encoder")
    parser.add_argument("--seeds", type=int, default=2, help="of fine-tuning, after each of them")
    small_encoders.run_script(parser, SMOKE, prepare, run_all, write_page)


def write_page(results: Path) -> None:
    """Write saved results into the page, and those of pseudo-sections from an earlier run."""
    pseudo = tables(report.load(PSEUDO_RESULTS), ["HDT, whole", *list(MODELS)[-3:]])
    pseudo = {f"{name}, pseudo-sections": table for name, table in pseudo.items()}
    report.write_tables(PAGE, tables(report.load(results)) | pseudo)


# Training


class Classifier(nn.Module):
    """Tells the versions apart by the state of the root, and the mean of all states."""

    def __init__(self, encoder: MaskedLM, length: int, width: int, *, pseudo: bool) -> None:
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
    """Train all models, and save the results of what finished."""
    options.end = time.time() + 60 * options.minutes
    try:
        kinds = dict.fromkeys(MODELS[name][0] for name in options.models)
        numbers = range(options.pretrainings)
        pretrainings = [(pretrain, kind, i, options) for i in numbers for kind in kinds]
        for stage in (
            [(count_words, options), *pretrainings],
            [(try_rate, name, rate, options) for rate in options.rates for name in options.models],
            [(finetune, name, i, options) for i in numbers for name in options.models],
        ):
            runs.run_in_parallel(run_one, stage, options.processes)
    finally:
        gather(options)


def run_one(work: Callable[..., None], *arguments: Any) -> None:
    """Do one of the parallel works on one core."""
    torch.set_num_threads(1)
    work(*arguments)


def new_encoder(kind: str, number: int, data: Documents, options: argparse.Namespace) -> MaskedLM:
    """Build an encoder with the random weights of a pretraining of this number."""
    torch.manual_seed(number)
    return KINDS[kind].new(data.vocabulary, options.layers, options.width)


def pretraining(kind: str, number: int) -> str:
    """Return the name of a pretraining."""
    return f"pretraining {kind} {number}"


def pretrain(kind: str, number: int, options: argparse.Namespace) -> None:
    """Pretrain an encoder."""
    data = Documents(options.data / "classification.xz")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    _, length, pseudo = KINDS[kind]
    documents = data.part("training")
    if pseudo:
        documents = [in_pseudo_sections(nodes) for nodes in documents]
    if length < MOST_TOKENS:
        documents = [piece for ids, types in documents for piece in pieces(ids, types, length)]
    sizes = [int((types == TOKEN).sum()) for _, types in documents]
    model = new_encoder(kind, number, data, options).to(device)

    def losses(step: int) -> Iterator[Tensor]:
        for chosen in epochs(sizes, options.tokens, number, step):
            rng = np.random.default_rng([number, step])
            yield model.masked_loss([documents[i] for i in chosen], data.mask, rng)
            step += 1

    folder = runs.run_folder(options.state, pretraining(kind, number))
    small_encoders.train(
        small_encoders.steps(options.pretraining),
        model,
        losses,
        folder,
        options.rate,
        falls=True,
        name=f"{kind}, {number}",
    )
    save_model(model, str(folder / "weights.safetensors"))


def try_rate(name: str, rate: float, options: argparse.Namespace) -> None:
    """Fine-tune the first pretrained encoder of a model for the development documents."""
    finetune_one(name, 0, 0, rate, "development", options)


def finetune(name: str, number: int, options: argparse.Namespace) -> None:
    """Fine-tune a pretrained encoder with each seed, at the learning rate that did best."""
    scores = development_scores(name, options)
    if len(scores) < len(options.rates):
        return
    for seed in fine_tunings(options)[number]:
        finetune_one(name, number, seed, best(scores), "held_out", options)


def fine_tunings(options: argparse.Namespace) -> list[range]:
    """Return the seeds of fine-tuning after each pretraining; none is used twice."""
    ends = [number * options.seeds for number in range(options.pretrainings + 1)]
    return [range(*its) for its in pairwise(ends)]


def development_scores(name: str, options: argparse.Namespace) -> dict[float, float]:
    """Return how often a model is right about development documents, by learning rate."""
    files = {rate: run_file(options, name, 0, 0, "development", rate) for rate in options.rates}
    return {rate: overall(np.load(file)["logits"]) for rate, file in files.items() if file.exists()}


def best(scores: dict[float, float]) -> float:
    """Return what has the highest score."""
    return max(scores, key=scores.__getitem__)


def finetune_one(
    name: str,
    number: int,
    seed: int,
    rate: float,
    part: str,
    options: argparse.Namespace,
) -> None:
    """Fine-tune and keep the logits of the documents of a part, unless they are or time is over."""
    file = run_file(options, name, number, seed, part, rate)
    if file.exists():
        return
    data = Documents(options.data / "classification.xz")
    kind, length, pseudo = MODELS[name]
    pretrained = new_encoder(kind, number, data, options)
    folder = runs.run_folder(options.state, pretraining(kind, number))
    load_model(pretrained, folder / "weights.safetensors")
    torch.manual_seed(seed)
    model = Classifier(pretrained, length, options.width, pseudo=pseudo)
    model.to("cuda" if torch.cuda.is_available() else "cpu")
    began = time.perf_counter()
    losses = train(model, data.part("training"), seed, rate, options)
    if losses is None:
        print(f"{file.stem}: no time left", flush=True)
        return
    seconds = time.perf_counter() - began
    logits = classify(model, data.part(part), options)
    np.savez(file, logits=logits, losses=losses, seconds=seconds)
    report_scores(file.stem, logits)


def run_file(options: argparse.Namespace, *names: str | float) -> Path:
    """Return the file of the logits of a run, which has these names."""
    folder = runs.run_folder(options.state, " ".join(map(str, names)))
    return folder.with_name(f"{folder.name}.npz")


def report_scores(name: str, logits: np.ndarray) -> None:
    """Print how often a run is right."""
    right = {other: f"{is_right(logits, other).mean():.3f}" for other in VERSIONS[1:]}
    print(f"{name}: {right}", flush=True)


def train(
    model: Classifier,
    documents: Sequence[Nodes],
    seed: int,
    rate: float,
    options: argparse.Namespace,
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
        optimizer.param_groups[0]["lr"] = rate * min(10 * done, 1 - done)
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


# Baselines


def count_words(options: argparse.Namespace) -> None:
    """Classify by logistic regression on TF-IDF of tokens."""
    data = Documents(options.data / "classification.xz")
    training = data.part("training")
    known = [
        nodes
        for number, document in enumerate(training)
        for nodes in all_versions([document], np.random.default_rng([1, number]))
    ]
    for name in TEXTS:
        file = run_file(options, name)
        if file.exists():
            continue
        logits, penalty = classify_counts(name, known, data)
        file.parent.mkdir(parents=True, exist_ok=True)
        np.savez(file, logits=logits, penalty=penalty)
        report_scores(f"{name}, C = {penalty:g}", logits)


def classify_counts(name: str, known: Sequence[Nodes], data: Documents) -> tuple[np.ndarray, float]:
    """Return the logits of held-out documents, and that of `PENALTIES` which was best before."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression

    words = TfidfVectorizer(analyzer=ANALYZERS[name], min_df=5, sublinear_tf=True)
    weights = words.fit_transform(known)
    classes = np.tile(np.arange(len(VERSIONS)), len(known) // len(VERSIONS))
    models = {C: LogisticRegression(C=C, max_iter=100).fit(weights, classes) for C in PENALTIES}

    def logits(penalty: float, unknown: Any) -> np.ndarray:
        odds = models[penalty].decision_function(unknown)
        return np.asarray(odds.reshape(-1, len(VERSIONS), len(VERSIONS)))

    development, held_out = (
        words.transform(held_out_versions(data.part(part), 0))
        for part in ("development", "held_out")
    )
    penalty = best({C: overall(logits(C, development)) for C in PENALTIES})
    return logits(penalty, held_out), penalty


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


def overall(logits: np.ndarray) -> float:
    """Return how often a run is right about both ways of shuffling."""
    return float(np.mean([is_right(logits, other) for other in VERSIONS[1:]]))


def gather(options: argparse.Namespace) -> None:
    """Save the accuracies, the paired differences and what has not finished; print the tables."""
    sources = Documents(options.data / "classification.xz").arrays["sources"]
    missing = []
    logits: dict[str, list[np.ndarray]] = {}
    rates, penalties = {}, {}
    for name in TEXTS:
        if run_file(options, name).exists():
            found = np.load(run_file(options, name))
            logits[name] = [found["logits"][None]]
            penalties[name] = float(found["penalty"])
        else:
            missing.append(name)
    for name in options.models:
        scores = development_scores(name, options)
        if len(scores) < len(options.rates):
            missing.append(name)
            continue
        rates[name] = {str(rate): round(100 * score, 2) for rate, score in scores.items()}
        files = [
            [run_file(options, name, number, seed, "held_out", best(scores)) for seed in seeds]
            for number, seeds in enumerate(fine_tunings(options))
        ]
        missing += [file.stem for its in files for file in its if not file.exists()]
        finished = [[np.load(file)["logits"] for file in its if file.exists()] for its in files]
        if any(finished):
            logits[name] = [np.stack(its) for its in finished if its]
    right = {
        (name, other): np.stack([is_right(pretrained, other).mean(0) for pretrained in its])
        for name, its in logits.items()
        for other in VERSIONS[1:]
    }
    keys = ("layers", "width", "tokens", "documents", "steps", "rate", "pretraining")
    recipe = {key: getattr(options, key) for key in (*keys, "pretrainings", "seeds")}
    names = [pretraining(kind, i) for kind in KINDS for i in range(options.pretrainings)]
    results = {
        "recipe": recipe | {"vocabulary": VOCABULARY},
        "held out": {name: int((sources == i).sum()) for i, name in enumerate(CORPORA)},
        "pretraining": runs.logs(options.state, names),
        "right in development, by learning rate": rates,
        "penalties": penalties,
        "accuracy": [
            {
                "model": name,
                "against": other,
                "each pretraining": percent(its),
                "each seed": [percent(is_right(one, other)) for one in logits[name]],
                "preferred": [
                    round(100 * float(is_preferred(one, other).mean()), 2) for one in logits[name]
                ],
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


def percent(scores: np.ndarray) -> list[float]:
    """Return the means of scores `(runs, documents)` in percent."""
    found: list[float] = (100 * scores.mean(1, dtype=np.float64)).round(2).tolist()
    return found


def differences(right: dict[tuple[str, str], np.ndarray]) -> list[dict[str, Any]]:
    """Compare HDT, reading all, to every other model.

    Args:
        right: Of each model and other version, how right each pretraining is about each document,
            `(pretrainings, documents)`.

    Returns:
        A row for each other version and model.
    """
    rng = np.random.default_rng(0)
    ours, *theirs = (*MODELS, *TEXTS)
    found = []
    for other in VERSIONS[1:]:
        for name in theirs:
            if not {(ours, other), (name, other)} <= right.keys():
                continue
            our_scores, their_scores = 100 * right[ours, other], 100 * right[name, other]
            drawn = redrawn_means(our_scores, their_scores, rng)
            found.append(
                {
                    "against": other,
                    "of": ours,
                    "from": name,
                    "mean": round(float(our_scores.mean() - their_scores.mean()), 2),
                    "interval": np.percentile(drawn, [2.5, 97.5]).round(2).tolist(),
                }
            )
    return found


def redrawn_means(ours: np.ndarray, theirs: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return differences of means over documents and pretrainings, both drawn with replacement.

    Both models are scored on the same documents, `(pretrainings, documents)`; their pretrainings
    are drawn independently.
    """
    number = ours.shape[1]
    documents = rng.multinomial(number, np.full(number, 1 / number), RESAMPLES) / number
    means = []
    for scores in (ours, theirs):
        runs_drawn = rng.multinomial(len(scores), np.full(len(scores), 1 / len(scores)), RESAMPLES)
        means.append((documents @ scores.T * runs_drawn).sum(1) / len(scores))
    return np.asarray(means[0] - means[1])


def tables(results: dict[str, Any], names: Sequence[str] = (*TEXTS, *MODELS)) -> dict[str, str]:
    """Return the accuracies of some models, and HDT's differences from the others of them."""
    rows = []
    for name in names:
        its = [one for one in results["accuracy"] if one["model"] == name]
        if not its:
            continue
        rows.append(
            [
                name,
                *(report.mean_and_deviation(one["each pretraining"]) for one in its),
                *(report.mean_and_deviation(one["preferred"]) for one in its),
                *(", ".join(f"{x:.1f}" for x in one["each pretraining"]) for one in its),
            ]
        )
    if not rows:
        sys.exit("no model has finished")
    kinds = ("{}", "{}, of two", "{}, each pretraining")
    header = ["", *(kind.format(name) for kind in kinds for name in VERSIONS[1:])]
    found = {"accuracy": report.table(header, rows)}
    rows = [
        [
            its["against"],
            its["from"],
            f"{its['mean']:+.1f} ({its['interval'][0]:+.1f} to {its['interval'][1]:+.1f})",
        ]
        for its in results["differences"]
        if its["from"] in names
    ]
    return found | {"differences": report.table(["shuffled", "HDT, whole, against", ""], rows)}


if __name__ == "__main__":
    main()
