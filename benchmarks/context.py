"""Context: how much of what answers a question a prompt of limited length holds.

Every system gets a question and a budget of tokens, by `foveate.tasks.tokens.estimate_tokens`:

- meetings (QMSum test, whose constants were chosen on val): the specific questions; what answers is
  the turns that the annotators marked. QMSum's topics, which they made too, are left out;
- turns as sections: the same, but every turn is a section headed by the speaker;
- papers (ScisummNet dev), PEPs (every eighth), proposals (dev) and articles (PLOS dev): the
  headings, of which none is left in the documents; what answers is the section, as in retrieval.py;
- general questions (QMSum test): ROUGE recall of the people's answer in the prompt.

The systems are the beginning of the document; chunks of 256 and 512 tokens (runs of whole
sentences) by BM25, by all-MiniLM-L6-v2 and by our encoder; sentences by our relevance, each with
its two neighbours; and `foveate.context`. Their prompts are filled with the best chunks or
sentences, and with as many sentences of the next one as fit. Only ours has numbers, which count.

    python -m benchmarks context                   # with the default model
    python -m benchmarks context --model model --output other.json

Each document is measured by one of `--jobs` processes, which have a core each.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rouge_score.rouge_scorer import RougeScorer
from torch import Tensor

from benchmarks import report
from benchmarks.registry import measurement, table
from benchmarks.retrieval import flat, tasks_of, without_headings
from benchmarks.retrieval_measures import interval
from benchmarks.retrieval_systems import match_words, minilm_path
from benchmarks.structured_documents import overviews
from foveate import Document, Encoder
from foveate.documents import Section
from foveate.tasks.centrality import unit
from foveate.tasks.context import fit, weigh
from foveate.tasks.prompt import outline
from foveate.tasks.relevance import encode_query, relevance
from foveate.tasks.tokens import estimate_tokens

PAGE = "tasks/context.md"
BUDGETS = (500, 1000, 2000, 4000, 8000)
COMPARED = 1000  # of these, at which the page compares systems
CHUNKS = (256, 512)
OWN = "foveate.context"
Case = tuple[Document, list[tuple[str, list[int] | str]]]
"""A document, and questions with the sentences that answer each or, in words, the answer."""
Values = dict[str, list[list[float]]]
"""Of each system: for each question what its prompts hold, by budget."""
systems: "Systems"
"""Those of this process, see `load`."""


@measurement("context.json", "transformers", "numpy")
def context(
    data: Path = report.DATA,
    model: str | None = None,
    minilm: str | None = None,
    device: str | None = None,
    limit: int | None = None,
    jobs: int | None = None,
) -> Iterator[tuple[dict[str, Any], list[str]]]:
    """Measure all systems on each set.

    Options:
        jobs: processes, by default one for each core
    """
    setting = {"model": model and Path(model).name, "limit": limit, "budgets": BUDGETS}
    of_systems = model, minilm or minilm_path(), device
    results: dict[str, Any] = {}
    with ProcessPoolExecutor(jobs, get_context("spawn"), load, of_systems) as pool:
        measured = {name: pool.map(measure, its) for name, its in sets(data, limit)}
        for name, of_documents in measured.items():
            results[name] = summary([values for values in of_documents if values])
            print(f"\n{name}\n\n{table_of(results[name])}", flush=True)
            missing = [other for other in measured if other not in results]
            yield {"setting": setting, "sets": results}, missing


def sets(data: Path, limit: int | None) -> Iterator[tuple[str, list[Case]]]:
    """Yield the name and the cases of each set."""
    of_meetings = tasks_of(data, "meetings", "test", limit)
    for name, arranged in (("meetings", flat), ("turns as sections", turns_as_sections)):
        yield (
            name,
            [
                (arranged(document), [(one.text, list(one.sentence_ids)) for one in queries])
                for document, queries in of_meetings
            ],
        )
    yield (
        "general questions",
        [
            (flat(without_headings(document)), [*questions])
            for document, questions in islice(overviews(data / "qmsum" / "test.jsonl.gz"), limit)
        ],
    )
    for name in ("papers", "PEPs", "proposals", "articles"):
        yield (
            name,
            [
                (document, [(one.text, list(one.sentence_ids)) for one in queries if one.specific])
                for document, queries in tasks_of(data, name, "dev", limit)
            ],
        )


def turns_as_sections(document: Document) -> Document:
    """Make every paragraph a section that is headed by its speaker."""
    turns = (
        Section(one.speaker or "", (replace(one, speaker=None),)) for one in document.paragraphs()
    )
    return replace(document, sections=tuple(turns))


class Systems:
    """What fills prompts.

    Args:
        own: Our encoder.
        minilm: all-MiniLM-L6-v2.
    """

    def __init__(self, own: Encoder, minilm: Encoder) -> None:
        self.own = own
        self.minilm = minilm

    def shown(
        self, document: Document, queries: Sequence[str]
    ) -> Iterator[tuple[str, int, int, list[int]]]:
        """Yield a system, the index of a query, a budget, and the sentences in the prompt."""
        sizes = estimate_tokens([f"{text} " for text in said(document)])
        for name, ranked in self._ranked(document, queries, sizes):
            for query, runs in enumerate(ranked):
                for budget in BUDGETS:
                    yield name, query, budget, fill(runs, sizes, budget)
        parts = outline([document])
        vectors = [self.own.encode(document)]
        for i, query in enumerate(queries):
            weights = weigh(query, [document], vectors, parts, self.own)
            for budget in BUDGETS:
                prompt = fit([document], parts, weights, budget, estimate_tokens)
                yield OWN, i, budget, [number - 1 for number in prompt.spans]

    def _ranked(
        self, document: Document, queries: Sequence[str], sizes: Sequence[int]
    ) -> Iterator[tuple[str, list[list[range]]]]:
        """Yield a system, and for each query the runs of sentences that it would show, in order."""
        texts = said(document)
        yield "beginning", [[range(len(texts))]] * len(queries)
        for size in CHUNKS:
            chunks = list(runs_of(sizes, size))
            joined = [" ".join(texts[i] for i in chunk) for chunk in chunks]
            scores = {"BM25": match_words(joined, queries)}
            for name, encoder in (("MiniLM", self.minilm), ("our encoder", self.own)):
                scores[name] = compare(encoder, queries, joined)
            for name, of_chunks in scores.items():
                yield f"chunks of {size}, {name}", [best(row, chunks) for row in of_chunks]
        vectors = [self.own.encode(document)]
        encoded = [encode_query(query, document.language, self.own) for query in queries]
        near = [range(max(i - 1, 0), min(i + 2, len(texts))) for i in range(len(texts))]
        yield (
            "sentences with neighbours",
            [best(relevance(query, [document], vectors)[0], near) for query in encoded],
        )


def said(document: Document) -> list[str]:
    """Return the sentences, the first of a paragraph after its speaker or heading."""
    return [
        f"{name}: {sentence.text}" if name and i == 0 else sentence.text
        for _, section in document.walk()
        for paragraph in section.paragraphs
        for name in [paragraph.speaker or section.title]
        for i, sentence in enumerate(paragraph.sentences)
    ]


def runs_of(sizes: Sequence[int], most: int) -> Iterator[range]:
    """Divide sentences into runs of at most so many tokens, if they have several."""
    start = total = 0
    for i, size in enumerate(sizes):
        total += size
        if i > start and total > most:
            yield range(start, i)
            start, total = i, size
    yield range(start, len(sizes))


def compare(encoder: Encoder, queries: Sequence[str], texts: Sequence[str]) -> Tensor:
    """Return the cosines of queries and texts."""
    return unit(encoder.encode_queries(queries)) @ unit(encoder.encode_texts(texts)).T


def best(scores: Tensor, runs: Sequence[range]) -> list[range]:
    """Sort runs by their scores; ties stay in order."""
    return [runs[i] for i in scores.argsort(descending=True, stable=True).tolist()]


def fill(runs: Sequence[range], sizes: Sequence[int], budget: int) -> list[int]:
    """Take sentences of runs until the first that does not fit."""
    taken: dict[int, None] = {}
    for run in runs:
        for i in run:
            if i in taken:
                continue
            if sizes[i] > budget:
                return list(taken)
            budget -= sizes[i]
            taken[i] = None
    return list(taken)


def load(model: str | None, minilm: str, device: str | None) -> None:
    """Load the systems of a process."""
    global systems
    torch.set_num_threads(1)
    systems = Systems(
        Encoder.from_pretrained(model, device=device),
        Encoder.from_pretrained(minilm, context="sentence", device=device),
    )


def measure(case: Case) -> Values:
    """Measure which share of the marked sentences prompts hold, or their ROUGE-2 recall."""
    document, questions = case
    texts = said(document)
    scorer = RougeScorer(["rouge2"], use_stemmer=True)
    values: Values = {}
    if not questions:
        return values
    for name, query, _, shown in systems.shown(document, [text for text, _ in questions]):
        answer = questions[query][1]
        if isinstance(answer, str):
            prompt = " ".join(texts[i] for i in sorted(shown))
            value = scorer.score(answer, prompt)["rouge2"].recall
        else:
            value = len(set(answer) & set(shown)) / len(answer)
        values.setdefault(name, [[] for _ in questions])[query].append(value)
    return values


def summary(of_documents: Sequence[Values]) -> dict[str, Any]:
    """Return the mean of each system at each budget, in percent, and what ours has more."""
    groups = [i for i, values in enumerate(of_documents) for _ in values[OWN]]
    scores = {
        name: 100 * np.array([row for values in of_documents for row in values[name]])
        for name in of_documents[0]
    }
    systems = {}
    for name, its in scores.items():
        systems[name] = {"mean": its.mean(0).round(2).tolist()}
        if name != OWN:
            low, high = interval(scores[OWN] - its, groups)
            systems[name]["ours, more"] = np.transpose([low, high]).round(2).tolist()
    return {"documents": len(of_documents), "questions": len(groups), "systems": systems}


def table_of(results: dict[str, Any]) -> str:
    """Format the means of all systems; the best of each budget is bold."""
    columns = list(zip(*(one["mean"] for one in results["systems"].values()), strict=True))
    rows = [
        [name, *map(report.marked, one["mean"], columns)]
        for name, one in results["systems"].items()
    ]
    size = f"{results['documents']} documents, {results['questions']} questions"
    return report.table([size, *(f"{budget:,}" for budget in BUDGETS)], rows)


@table(PAGE, "compared", "context.json")
def compared_table(results: dict[str, Any]) -> str:
    """Format all systems at one budget."""
    place = BUDGETS.index(COMPARED)
    of_sets = {
        name: {system: one["mean"][place] for system, one in its["systems"].items()}
        for name, its in results["sets"].items()
    }
    sizes = [
        f"{name}: {its['documents']}, {its['questions']}" for name, its in results["sets"].items()
    ]
    rows = [
        [system, *(report.marked(its[system], its.values()) for its in of_sets.values())]
        for system in next(iter(of_sets.values()))
    ]
    return report.table([f"{COMPARED:,} tokens", *sizes], rows)


@table(PAGE, "budgets", "context.json")
def budgets_table(results: dict[str, Any]) -> str:
    """Format ours at all budgets."""
    rows = [
        [
            name,
            *(f"{value:.1f}" for value in its["systems"][OWN]["mean"]),
            f"{tokens_for_the_same(its):,.0f}",
        ]
        for name, its in results["sets"].items()
    ]
    header = ["", *(f"{budget:,}" for budget in BUDGETS), "the best other's"]
    return report.table(header, rows)


def tokens_for_the_same(results: dict[str, Any]) -> float:
    """Interpolate the budget in which ours holds what the best other holds in `COMPARED` tokens.

    It is 500 if ours holds more in that, the smallest budget.
    """
    place = BUDGETS.index(COMPARED)
    means = {name: one["mean"] for name, one in results["systems"].items()}
    own = means.pop(OWN)
    return float(np.interp(max(mean[place] for mean in means.values()), own, BUDGETS))
