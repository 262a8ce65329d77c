"""Context: how much of what answers a question a prompt of limited length holds.

Every system gets a question and a budget of tokens, by `foveate.tasks.tokens.estimate_tokens`:

- meetings (QMSum test, whose constants were chosen on val): the specific questions; what answers is
  the turns that the annotators marked. QMSum's topics, which they made too, are left out;
- papers (ScisummNet dev), PEPs (every eighth), proposals (dev) and articles (PLOS dev): the
  headings, of which none is left in the documents; what answers is the section, as in retrieval.py;
- general questions (QMSum test): ROUGE recall of the people's answer in the prompt.

The systems are the beginning of the document; chunks of 256 and 512 tokens (runs of whole
sentences) by BM25, by all-MiniLM-L6-v2 and by our encoder; sentences by our relevance, each with
its two neighbours; and `foveate.context`. Their prompts are filled with the best chunks or
sentences, and with as many sentences of the next one as fit. Only ours has numbers, which count.

    python benchmarks/context.py --meetings test.jsonl.gz           # with the default model
    python benchmarks/context.py --meetings test.jsonl.gz --model model --output other.json
    python benchmarks/context.py --docs                             # write the tables of the page
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from rouge_score.rouge_scorer import RougeScorer
from torch import Tensor

import arguments
import report
from foveate import Document, Encoder
from foveate.data import Example
from foveate.tasks.centrality import unit
from foveate.tasks.context import fit, weigh
from foveate.tasks.prompt import outline
from foveate.tasks.relevance import relevance
from foveate.tasks.tokens import estimate_tokens
from retrieval import flat, headings, without_headings
from retrieval_measures import interval
from retrieval_systems import match_words, minilm_path
from structured_documents import meetings, overviews, papers, peps, plos, proposals

PAGE = report.ROOT / "docs" / "tasks" / "context.md"
RESULT = report.RESULTS / "context.json"
BUDGETS = (500, 1000, 2000, 4000, 8000)
CHUNKS = (256, 512)
OWN = "foveate.context"
Case = tuple[Document, list[tuple[str, list[int]]]]
"""A document, and questions with the sentences that answer each."""


def main() -> None:
    parser = arguments.parser(
        __doc__, "data", "model", "minilm", "device", "limit", "docs", output=RESULT
    )
    parser.add_argument("--meetings", type=Path, help="QMSum's test split, as val")
    options = parser.parse_args()
    if options.docs:
        report.write_tables(PAGE, tables(options.output))
        return
    systems = Systems(
        Encoder.from_pretrained(options.model, device=options.device),
        Encoder.from_pretrained(
            options.minilm or minilm_path(), context="sentence", device=options.device
        ),
    )
    path = options.meetings or options.data / "qmsum" / "test.jsonl.gz"
    results = {}
    for name, cases in sets(options.data, path, options.limit):
        results[name] = hold(cases, systems)
        print(f"\n{name}\n\n{table_of(results[name])}", flush=True)
    name = "general questions"
    results[name] = resemble(islice(overviews(path), options.limit), systems)
    print(f"\n{name}\n\n{table_of(results[name])}", flush=True)
    setting = {"model": options.model and Path(options.model).name, "budgets": BUDGETS}
    report.save(options.output, {"setting": setting, "sets": results}, "transformers", "numpy")


def sets(data: Path, of_meetings: Path, limit: int | None) -> Iterator[tuple[str, list[Case]]]:
    """Yield the name and the cases of each set."""
    yield (
        "meetings",
        [
            (
                flat(without_headings(example.document)),
                [(one.text, list(one.sentence_ids)) for one in example.queries if one.sentence_ids],
            )
            for example in islice(meetings(of_meetings), limit)
        ],
    )
    written: dict[str, Iterator[Example]] = {
        "papers": papers(data / "scisummnet" / "dev.jsonl.gz"),
        "PEPs": peps(data / "peps" / "train.jsonl.gz", "dev"),
        "proposals": proposals(data / "proposals" / "dev.jsonl.xz"),
        "articles": plos(data / "plos" / "dev.tar.xz"),
    }
    for name, examples in written.items():
        yield (
            name,
            [
                (document, [(one.text, list(one.sentence_ids)) for one in queries if one.specific])
                for document, queries in headings(islice(examples, limit))
            ],
        )


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
        near = [range(max(i - 1, 0), min(i + 2, len(texts))) for i in range(len(texts))]
        yield (
            "sentences with neighbours",
            [best(relevance(query, [document], vectors, self.own)[0], near) for query in queries],
        )


def said(document: Document) -> list[str]:
    """Return the sentences, the first of a paragraph after its speaker."""
    return [
        f"{paragraph.speaker}: {sentence.text}" if paragraph.speaker and i == 0 else sentence.text
        for paragraph in document.paragraphs()
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


def hold(cases: Sequence[Case], systems: Systems) -> dict[str, Any]:
    """Measure which share of the marked sentences prompts hold, in percent."""
    shares: dict[str, list[list[float]]] = {}
    groups: list[int] = []
    for group, (document, questions) in enumerate(cases):
        if not questions:
            continue
        found: dict[str, list[list[float]]] = {}
        for name, query, _, shown in systems.shown(document, [text for text, _ in questions]):
            rows = found.setdefault(name, [[] for _ in questions])
            marked = set(questions[query][1])
            rows[query].append(len(marked & set(shown)) / len(marked))
        for name, rows in found.items():
            shares.setdefault(name, []).extend(rows)
        groups += [group] * len(questions)
    return summary(shares, groups)


def resemble(
    cases: Iterator[tuple[Document, list[tuple[str, str]]]], systems: Systems
) -> dict[str, Any]:
    """Measure ROUGE-2 recall of answers to general questions, in percent."""
    scorer = RougeScorer(["rouge2"], use_stemmer=True)
    recall: dict[str, list[list[float]]] = {}
    groups: list[int] = []
    for group, (titled, questions) in enumerate(cases):
        document = flat(without_headings(titled))
        texts = said(document)
        found: dict[str, list[list[float]]] = {}
        for name, query, _, shown in systems.shown(document, [query for query, _ in questions]):
            rows = found.setdefault(name, [[] for _ in questions])
            prompt = " ".join(texts[i] for i in sorted(shown))
            rows[query].append(scorer.score(questions[query][1], prompt)["rouge2"].recall)
        for name, rows in found.items():
            recall.setdefault(name, []).extend(rows)
        groups += [group] * len(questions)
    return summary(recall, groups)


def summary(values: dict[str, list[list[float]]], groups: Sequence[int]) -> dict[str, Any]:
    """Return the mean of each system at each budget, and what ours has more, with intervals."""
    own = np.array(values[OWN])
    systems = {}
    for name, rows in values.items():
        scores = np.array(rows)
        systems[name] = {"mean": (100 * scores.mean(0)).round(2).tolist()}
        if name != OWN:
            low, high = interval(own - scores, groups)
            systems[name]["ours, more"] = [
                [round(100 * float(x), 2) for x in bounds] for bounds in zip(low, high, strict=True)
            ]
    return {"documents": len(set(groups)), "questions": len(groups), "systems": systems}


def table_of(results: dict[str, Any]) -> str:
    """Format the means of all systems; the best of each budget is bold."""
    columns = zip(*(one["mean"] for one in results["systems"].values()), strict=True)
    highest = [max(column) for column in columns]
    rows = [
        [
            name,
            *(
                f"**{value:.1f}**" if value == most else f"{value:.1f}"
                for value, most in zip(one["mean"], highest, strict=True)
            ),
        ]
        for name, one in results["systems"].items()
    ]
    return report.table(["tokens", *(f"{budget:,}" for budget in BUDGETS)], rows)


def tables(path: Path) -> dict[str, str]:
    """Format saved results for the page."""
    return {name: table_of(results) for name, results in report.load(path)["sets"].items()}


if __name__ == "__main__":
    main()
