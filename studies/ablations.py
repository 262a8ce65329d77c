"""Which parts of TreeBert's training matter: the same training, with one part changed each time.

    python benchmarks/training_corpus.py              # writes the corpus
    python studies/ablations.py                    # trains and measures every variant, on a GPU
    python studies/ablations.py --only full "no exchange between anchors"
    python studies/ablations.py --passages         # the leaves instead
    python studies/ablations.py --docs             # write the saved results into the page

All variants start from the recipe tree-bert and are shorter than the shipped model's training: 450
steps of 262,144 tokens, on the corpus without the manuals and with each meeting once with its
topics and once without. The longer runs, among which the recipe was chosen, follow it but for what
their names say, on the whole corpus. The leaves of both are sentences.

With --passages, the leaves are sentences or passages, with and without exchange above them, on the
whole corpus; without, every passage is a tree by itself, which is late chunking, trained.

Each is measured as `retrieval.py` measures, on its development documents, by cosines alone: of the
sentence, and of the sentence plus 0.3 times that of its section. Documents are found by each
sentence of their summary. The last measure is the rank correlation of cosines between sentences by
themselves with those of MiniLM. The variant "MiniLM" is not trained.
"""

import random
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor
from transformers import AutoConfig

import arguments
import report
from foveate import Document, Encoder
from foveate.preprocessing.tree import Anchor
from foveate.preprocessing.tree_builder import TreeBuilder
from foveate.tasks.centrality import unit
from foveate.training import Recipe, train
from retrieval import run_documents, run_within
from retrieval_systems import (
    Systems,
    best_sentences,
    compare,
    encode_lists,
    minilm_path,
    sections_of_sentences,
    sentence_texts,
)
from structured_documents import papers

PAGE = report.STUDIES / "context.md"
RESULTS = report.STUDIES / "results" / "ablations.json"
PASSAGES_RESULTS = report.STUDIES / "results" / "ablations-passages.json"
PAIRS = 4000  # of sentences, whose cosines are compared with MiniLM's
SECTION_WEIGHT = 0.3

PARTS = ("papers", "peps", "proposals", "meetings", "meetings_flat")
SENTENCES = ("processor.passage_tokens=null",)
SHORT = (
    *SENTENCES,
    "batch.tokens=262144",
    "objective.distillation=4.0",
    "training.max_steps=450",
    "training.learning_rate=1.0e-4",
)
VARIANTS: dict[str, tuple[str, ...]] = {
    "full": (),
    "no exchange between anchors": (),
    "no negatives within documents": ("objective.in_document=0.0",),
    "from random weights": ("training.learning_rate=5.0e-4", "objective.distillation=0.0"),
    "learning rate 2e-4": ("training.learning_rate=2.0e-4",),
    "temperature 0.03": ("objective.temperature=0.03",),
    "half the batch, twice the steps": ("batch.tokens=131072", "training.max_steps=900"),
    "without QMSum": (),
}
LONGER: dict[str, tuple[str, ...]] = {
    "131,072 tokens, 2,200 steps, distillation 6": ("training.max_steps=2200",),
    "131,072 tokens, 2,090 steps, distillation 4": (
        "training.max_steps=2090",
        "objective.distillation=4.0",
    ),
    "262,144 tokens, 1,100 steps, distillation 4": (
        "batch.tokens=262144",
        "training.max_steps=1100",
        "objective.distillation=4.0",
    ),
    "262,144 tokens, 1,100 steps, distillation 10": (
        "batch.tokens=262144",
        "training.max_steps=1100",
        "objective.distillation=10.0",
    ),
    "65,536 tokens, 3,850 steps, learning rate 1.5e-4": (
        "batch.tokens=65536",
        "training.max_steps=3850",
        "training.learning_rate=1.5e-4",
    ),
    "without meetings": ("training.max_steps=2136",),
}
"""What the recipe tree-bert was chosen among; on the whole corpus."""

PASSAGES: dict[str, tuple[str, ...]] = {
    f"{leaves}, {steps:,} steps{alone}": (
        f"processor.passage_tokens={most}",
        f"training.max_steps={steps}",
    )
    for steps, most, leaves in (
        (800, "null", "sentences"),
        (800, 256, "passages of 256"),
        (800, 448, "passages of 448"),
        (2000, 256, "passages of 256"),
        (2000, 448, "passages of 448"),
    )
    for alone in ("", ", alone")
}
"""Leaves of two kinds, with and without exchange above them."""

UNTRAINED = "MiniLM"
ISOLATED = ("no exchange between anchors", *(name for name in PASSAGES if name.endswith("alone")))
WITHOUT_MEETINGS = ("without QMSum", "without meetings")
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
    names = (UNTRAINED, *VARIANTS, *LONGER)
    parser.add_argument("--only", choices=(*names, *PASSAGES), nargs="+", default=names)
    parser.add_argument(
        "--passages", dest="only", action="store_const", const=tuple(PASSAGES), help="their runs"
    )
    parser.add_argument(
        "--set", action="append", default=[], help="change an entry of every variant's recipe"
    )
    parser.add_argument("--device", help="where to measure, by default a GPU if there is one")
    parser.add_argument("--limit", type=int, help="documents of each set, by default all")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--docs", action="store_true", help="write saved results into the page")
    options = parser.parse_args()
    if options.docs:
        leaves = {"passages": passages_table(report.load(PASSAGES_RESULTS)["runs"])}
        report.write_tables(PAGE, tables(options.results) | leaves)
        return
    minilm = options.minilm or minilm_path()
    sample = sentence_pairs(islice(papers(options.data / "scisummnet" / "dev.jsonl.gz"), 100))
    teacher = Encoder.from_pretrained(minilm, context="sentence", device=options.device)
    expected = cosines(teacher, sample)
    runs: dict[str, Any] = {}
    for name in options.only:
        with tempfile.TemporaryDirectory() as folder:
            is_cut = name in ISOLATED
            with patch.object(TreeBuilder, "tree", isolated_tree) if is_cut else nullcontext():
                start = time.perf_counter()
                if name != UNTRAINED:
                    train_variant(name, minilm, options.corpus, options.set, folder)
                seconds = time.perf_counter() - start
                encoder = Encoder.from_pretrained(
                    minilm if name == UNTRAINED else folder,
                    context="sentence" if name == UNTRAINED else None,
                    device=options.device,
                )
                vectors = Vectors(encoder)
                runs[name] = {
                    "seconds": round(seconds),
                    "within": means(run_within(options.data, options.limit, vectors)),
                    "documents": means(run_documents(options.data, options.limit, vectors)),
                    "Spearman": round(rank_correlation(cosines(encoder, sample), expected), 3),
                }
        variants = VARIANTS | LONGER | PASSAGES
        setting = {"short": SHORT, "variants": variants, "set": options.set}
        report.save(options.results, {"setting": setting, "runs": runs}, "transformers", "triton")


# Training


def train_variant(
    name: str, minilm: str, corpus: Path, overrides: Sequence[str], output: str
) -> None:
    """Train a variant and save it."""
    is_long = name in LONGER or name in PASSAGES
    parts = [path.stem for path in sorted(corpus.glob("*.jsonl"))] if is_long else PARTS
    files = [
        str(corpus / f"{part}.jsonl")
        for part in parts
        if not (name in WITHOUT_MEETINGS and part.startswith("meetings"))
    ]
    entries = [f"model.checkpoint={minilm}", f"tokenizer={minilm}", f"data.train={files}"]
    entries += [
        "training.save_strategy=no",
        *_overrides(name),
    ]
    recipe = Recipe.load("tree-bert", [*entries, *overrides])
    if name == "from random weights":
        config = AutoConfig.from_pretrained(minilm)
        shape = {entry: getattr(config, entry) for entry in SHAPE}
        recipe = replace(recipe, model={"type": "tree_bert", **shape})
    train(recipe, output)


def _overrides(name: str) -> tuple[str, ...]:
    """Return what a variant changes in the recipe."""
    if name in PASSAGES:
        return PASSAGES[name]
    return SENTENCES + LONGER[name] if name in LONGER else SHORT + VARIANTS[name]


_tree = TreeBuilder.tree


def isolated_tree(builder: TreeBuilder, *outlines: Sequence[Anchor], query: str = "") -> Any:
    """Build a forest in which every anchor is a tree by itself, with its tokens."""
    nodes, owners = _tree(builder, *outlines, query=query)
    is_anchor = nodes.parent_ids.new_zeros(len(nodes.parent_ids), dtype=torch.bool)
    is_anchor[nodes.parent_ids[nodes.parent_ids >= 0]] = True
    return replace(nodes, parent_ids=nodes.parent_ids.masked_fill(is_anchor, -1)), owners


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


def tables(path: Path) -> dict[str, str]:
    """Return the tables of saved results, by the names that the page gives them."""
    runs = report.load(path)["runs"]
    short = {name: run for name, run in runs.items() if name not in LONGER}
    longer = {name: run for name, run in runs.items() if name in LONGER}
    found = {}
    for kind, group in (("ablations", short), ("longer runs", longer)):
        if group:
            found[kind] = within_table(group)
    if any("documents" in run for run in short.values()):
        found["documents"] = documents_table(short)
    return found


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
    measured = {name: run["documents"] for name, run in runs.items() if "documents" in run}
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
