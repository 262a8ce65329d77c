"""Which parts of TreeBert's training matter: the same training, with one part changed each time.

    python -m benchmarks training_corpus --output corpus --manuals packages
    python studies/ablations.py --corpus corpus     # trains and measures every variant, on a GPU
    python studies/ablations.py --only "the default model" MiniLM      # measures them, untrained
    python studies/ablations.py --docs              # write the saved results into the page

All variants start from the recipe tree-bert. Each is measured as `retrieval.py` measures, on its
development documents, by cosines alone: of the sentence, and of the sentence plus 0.3 times that of
its section. Documents are found by each sentence of their summary. The last measure is the rank
correlation of cosines between sentences by themselves with those of MiniLM.

The tables of sentences as leaves, and of exchange above the leaves, are of commit fd8d7adf, the
last one whose model had them.
"""

import random
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import AutoConfig

import arguments
from benchmarks import report
from benchmarks.retrieval import run_documents, run_within
from benchmarks.retrieval_systems import (
    Systems,
    best_sentences,
    compare,
    encode_lists,
    minilm_path,
    sections_of_sentences,
    sentence_texts,
)
from benchmarks.structured_documents import papers
from foveate import Document, Encoder
from foveate.tasks.centrality import unit
from foveate.training import Recipe, train

PAGE = report.STUDIES / "context.md"
RESULTS = report.ROOT / "build" / "ablations.json"
PAIRS = 4000  # of sentences, whose cosines are compared with MiniLM's
SECTION_WEIGHT = 0.3

VARIANTS: dict[str, tuple[str, ...]] = {
    "full": (),
    "passages of 256": ("processor.passage_tokens=256",),
    "no negatives within documents": ("objective.in_document=0.0",),
    "from random weights": ("training.learning_rate=5.0e-4", "objective.distillation=0.0"),
    "learning rate 1e-4": ("training.learning_rate=1.0e-4",),
    "temperature 0.03": ("objective.temperature=0.03",),
    "twice the batch, half the steps": ("batch.tokens=262144", "training.max_steps=1000"),
    "without QMSum": (),
}
DEFAULT, MINILM = UNTRAINED = ("the default model", "MiniLM")
SHAPE = (
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
    "max_position_embeddings",
)


def main() -> None:
    parser = arguments.parser(__doc__, "data", "minilm")
    parser.add_argument("--corpus", type=Path, default=report.ROOT / "build" / "corpus")
    names = (*UNTRAINED, *VARIANTS)
    parser.add_argument("--only", choices=names, nargs="+", default=names)
    parser.add_argument(
        "--set", action="append", default=[], help="change an entry of every variant's recipe"
    )
    parser.add_argument("--device", help="where to measure, by default a GPU if there is one")
    parser.add_argument("--limit", type=int, help="documents of each set, by default all")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--docs", action="store_true", help="write saved results into the page")
    options = parser.parse_args()
    if options.docs:
        report.write_tables(PAGE, tables())
        return
    minilm = options.minilm or minilm_path()
    sample = sentence_pairs(islice(papers(options.data / "scisummnet" / "dev.jsonl.gz"), 100))
    teacher = Encoder.from_pretrained(minilm, context="sentence", device=options.device)
    expected = cosines(teacher, sample)
    runs: dict[str, Any] = {}
    for name in options.only:
        with tempfile.TemporaryDirectory() as folder:
            start = time.perf_counter()
            if name in VARIANTS:
                train_variant(name, minilm, options.corpus, options.set, folder)
            seconds = time.perf_counter() - start
            path = {DEFAULT: None, MINILM: minilm}.get(name, folder)
            encoder = Encoder.from_pretrained(
                path, context="sentence" if name == MINILM else None, device=options.device
            )
            vectors = Vectors(encoder)
            runs[name] = {
                "seconds": round(seconds),
                "within": means(run_within(options.data, options.limit, vectors)),
                "documents": means(run_documents(options.data, options.limit, vectors)),
                "Spearman": round(rank_correlation(cosines(encoder, sample), expected), 3),
            }
        setting = {"variants": VARIANTS, "set": options.set}
        report.save(options.results, {"setting": setting, "runs": runs}, "transformers", "triton")


# Training


def train_variant(
    name: str, minilm: str, corpus: Path, overrides: Sequence[str], output: str
) -> None:
    """Train a variant and save it."""
    files = [
        str(path)
        for path in sorted(corpus.glob("*.jsonl"))
        if not (name == "without QMSum" and path.stem.startswith("meetings"))
    ]
    entries = [f"model.checkpoint={minilm}", f"tokenizer={minilm}", f"data.train={files}"]
    entries += ["training.save_strategy=no", *VARIANTS[name]]
    recipe = Recipe.load("tree-bert", [*entries, *overrides])
    if name == "from random weights":
        config = AutoConfig.from_pretrained(minilm)
        shape = {entry: getattr(config, entry) for entry in SHAPE}
        recipe = replace(recipe, model={"type": "tree_bert", **shape})
    train(recipe, output)


# Measures


class Vectors(Systems):
    """An encoder's vectors by themselves.

    Args:
        encoder: The encoder.
    """

    def __init__(self, encoder: Encoder) -> None:
        self.encoder = encoder

    def within(
        self, documents: Sequence[Document], queries: Sequence[Sequence[str]]
    ) -> Iterator[tuple[str, list[Tensor]]]:
        """Score the sentences of documents; see `Systems.within`."""
        vectors = self.encoder.encode(documents)
        wanted = encode_lists(self.encoder, queries)
        own = compare(wanted, [its.sentences for its in vectors])
        yield "sentence", own
        sections = compare(wanted, sections_of_sentences(documents, vectors))
        yield (
            "sentence + section",
            [a + SECTION_WEIGHT * b for a, b in zip(own, sections, strict=True)],
        )

    def among(
        self, documents: Sequence[Document], queries: Sequence[Sequence[str]]
    ) -> Iterator[tuple[str, Tensor]]:
        """Score documents; see `Systems.among`."""
        vectors = self.encoder.encode(documents)
        wanted = unit(self.encoder.encode_queries([" ".join(query) for query in queries]))
        yield "document vector", wanted @ unit(torch.stack([its.document for its in vectors])).T
        mean = torch.stack([unit(its.sentences).mean(0) for its in vectors])
        yield "mean of sentences", wanted @ unit(mean).T
        yield "best sentence", best_sentences(encode_lists(self.encoder, queries), vectors)


def means(results: dict[str, Any]) -> dict[str, Any]:
    """Keep the means of all queries."""
    return {
        name: {
            "documents": its["documents"],
            "queries": its["queries"],
            "systems": {
                system: {measure: cell["mean"] for measure, cell in of_system["all"].items()}
                for system, of_system in its["systems"].items()
            },
        }
        for name, its in results.items()
        if not name.endswith("by whole")
    }


def sentence_pairs(examples: Any) -> tuple[list[str], list[str]]:
    """Draw pairs of sentences: one half at random, one half neighbors."""
    generator = random.Random(0)
    texts = [text for example in examples for text in sentence_texts(example.document)]
    starts = [generator.randrange(len(texts) - 1) for _ in range(PAIRS)]
    others = [generator.randrange(len(texts)) for _ in range(PAIRS // 2)]
    others += [start + 1 for start in starts[PAIRS // 2 :]]
    return [texts[i] for i in starts], [texts[i] for i in others]


def cosines(encoder: Encoder, pairs: tuple[list[str], list[str]]) -> Tensor:
    """Compute the cosine of each pair, every sentence by itself: `(pairs,)`."""
    first, second = (unit(encoder.encode_texts(texts)) for texts in pairs)
    return (first * second).sum(-1)


def rank_correlation(a: Tensor, b: Tensor) -> float:
    """Compute Spearman's correlation of two samples without ties."""
    ranks = torch.stack([a.argsort().argsort(), b.argsort().argsort()]).float()
    return float(torch.corrcoef(ranks)[0, 1])


# Tables


def tables() -> dict[str, str]:
    """Return the tables of saved results, by the names that the page gives them."""
    results = report.STUDIES / "results"
    sentences = report.load(results / "ablations.json")["runs"]
    passages = report.load(results / "ablations-passages.json")["runs"]
    removed = report.load(results / "ablations-without-exchange.json")["runs"]
    default = report.load(results / "default-model.json")["runs"]
    return {
        "passages": passages_table({**passages, **default}),
        "removed": passages_table(removed),
        "documents": documents_table(default),
        "sentences": within_table(sentences),
    }


def passages_table(runs: dict[str, Any]) -> str:
    """Format hit@1 and nDCG@10 by the sentence of each set."""
    sets = next(iter(runs.values()))["within"]
    rows = []
    for name, run in runs.items():
        measured = [its["systems"]["sentence"] for its in run["within"].values()]
        rows.append([name, *(f"{x['hit@1']:.1f} / {x['nDCG@10']:.1f}" for x in measured)])
    header = [f"{name}: {its['queries']:,}" for name, its in sets.items()]
    return report.table(["", *header], rows)


def within_table(runs: dict[str, Any]) -> str:
    """Format nDCG@10 by the sentence, and by the sentence and its section, of each set."""
    sets = next(iter(runs.values()))["within"]
    rows = []
    for name, run in runs.items():
        cells = [
            " / ".join(
                f"{its['systems'][system]['nDCG@10']:.1f}"
                for system in ("sentence", "sentence + section")
            )
            for its in run["within"].values()
        ]
        rows.append([name, *cells, f"{run['Spearman']:.2f}"])
    header = [f"{name}: {its['queries']:,}" for name, its in sets.items()]
    return report.table(["", *header, "Spearman"], rows)


def documents_table(runs: dict[str, Any]) -> str:
    """Format R@1 of documents by each kind of vector."""
    measured = {name: run["documents"] for name, run in runs.items()}
    sets = next(iter(measured.values()))
    rows = [
        [
            name,
            *(
                " / ".join(f"{measures['R@1']:.1f}" for measures in its["systems"].values())
                for its in of_run.values()
            ),
        ]
        for name, of_run in measured.items()
    ]
    header = [f"{name}: {its['documents']}" for name, its in sets.items()]
    return report.table(["", *header], rows)


if __name__ == "__main__":
    main()
