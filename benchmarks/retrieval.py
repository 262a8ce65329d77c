"""Retrieval: sentences within a document, and documents among many, against BM25 and MiniLM.

Within a document, all of its sentences are ranked by a question or by a heading:

- meetings (QMSum val): the specific questions; relevant are the sentences of the turns that the
  annotators marked. The sections are QMSum's topics, which the annotators of the questions made, so
  the meetings are also ranked without any sections.
- papers (ScisummNet dev), PEPs (every eighth), proposals (dev) and articles (PLOS dev; none were in
  training): the headings; relevant are all sentences of the section, subsections included. No
  heading is left in the document that is searched; its sections stay. Numbers in front of a heading
  are cut off. Headings without a word of three letters or with over twelve words, and sections with
  one sentence or with over half of the document are left out; sections with the same heading count
  as one. A heading is specific if no other document of the set has it: "Introduction" is not.

Passages are made of a ranking as `foveate.search` makes them: up to five sentences around the best.

Among many documents, each is ranked by a text about it:

- papers by the human summary, without the sections that hold the abstract: dev alone, and among 88
  of train; proposals (dev) by their abstract, which is cut out; meetings (val) by the summary of
  the whole meeting; each by every sentence, and by the whole text;
- meetings (val) by the answers to the questions about them.

    python -m benchmarks retrieval --task within                    # the peers
    python -m benchmarks retrieval --task within --model MODEL      # and an encoder of documents

Each task's results are saved in a file of its own. Intervals hold 95 % of the means over resampled
documents. The encoder, alone and as `search` uses it, is compared with every other system on the
same queries: the mean of the differences and its interval are saved.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import groupby, islice
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from benchmarks import report
from benchmarks.registry import measurement, table
from benchmarks.retrieval_measures import (
    MEASURES,
    RESAMPLES,
    SEED,
    differences,
    hit,
    rank,
    summarize,
)
from benchmarks.retrieval_systems import Systems, minilm_path, section_slices, sentence_texts
from benchmarks.structured_documents import read_set, without_abstract, without_abstracts
from foveate import Document
from foveate.data import Example, read_benchmark
from foveate.documents import Section
from foveate.tasks.centrality import SentencePositions
from foveate.tasks.passages import num_words, windows

PAGE = "numbers/retrieval.md"
LONGEST_HEADING = 12  # words; longer ones are rows of tables
DISTRACTORS = 88  # papers of the training part among those of the development part
FIFTHS = 5
PASSAGES = "hit@5 of passages"
"""Whether one of the first five passages is relevant, as `foveate.search` shows sentences."""

_NUMBERING = re.compile(r"^\s*(?:(?:\d+|[IVX]+|[A-Z])(?:\.\d+)*[.:)]|\d+(?:\.\d+)*)\s+")
_WORD = re.compile(r"[^\W\d_]{3,}")


@measurement("retrieval-{task}.json", "transformers", "numpy")
def retrieval(
    task: Literal["within", "documents", "answers"],
    data: Path = report.DATA,
    model: str | None = None,
    minilm: str | None = None,
    device: str | None = None,
    dtype: str | None = None,
    limit: int | None = None,
) -> dict[str, Any]:
    """Measure all systems.

    Options:
        task: what is found: sentences within a document, documents by summaries, or by answers
        model: name or path of an encoder, by default only the peers
    """
    systems = Systems(minilm or minilm_path(), model, device, dtype)
    runs = {"within": run_within, "documents": run_documents, "answers": run_answers}
    results = runs[task](data, limit, systems)
    setting = {
        "model": model and Path(model).name,
        "dtype": dtype,
        "resamples": RESAMPLES,
        "seed": SEED,
    }
    return {"setting": setting, "sets": results}


# Within a document


class Query(NamedTuple):
    """A query about a document.

    Attributes:
        text: Its words.
        sentence_ids: The relevant sentences.
        specific: Whether its words say more than where in a document it stands.
    """

    text: str
    sentence_ids: Sequence[int]
    specific: bool = True


Tasks = list[tuple[Document, list[Query]]]
"""Documents, each with queries about it."""


def tasks_of(data: Path, name: str, part: str, limit: int | None) -> Tasks:
    """Read a set without its headings: meetings with their questions, others with the headings."""
    examples = islice(read_set(data, name, part), limit)
    if name != "meetings":
        return headings(examples)
    return [
        (
            without_headings(example.document),
            [
                Query(query.text, query.sentence_ids)
                for query in example.queries
                if query.sentence_ids
            ],
        )
        for example in examples
    ]


def run_within(data: Path, limit: int | None, systems: Systems) -> dict[str, Any]:
    """Rank the sentences of each document by queries about it."""
    of_meetings = tasks_of(data, "meetings", "dev", limit)
    sets = {
        "meetings": of_meetings,
        "meetings without sections": [(flat(document), q) for document, q in of_meetings],
    }
    for name in ("papers", "PEPs", "proposals", "articles"):
        sets[name] = tasks_of(data, name, "dev", limit)
    results = {}
    for name, tasks in sets.items():
        documents = [document for document, queries in tasks if queries]
        queries = [queries for _, queries in tasks if queries]
        results[name] = within(documents, queries, systems)
        print_set(name, results[name])
    return results


def within(
    documents: Sequence[Document], queries: Sequence[Sequence[Query]], systems: Systems
) -> dict[str, Any]:
    """Measure all systems on the sentences of documents."""
    measures = MEASURES["within"]
    names = [*measures, PASSAGES]
    layouts = [layout(document) for document in documents]
    num_sentences = [len(sentence_texts(document)) for document in documents]
    relevant = [
        torch.zeros(len(its), size, dtype=torch.bool)
        for its, size in zip(queries, num_sentences, strict=True)
    ]
    for marks, its in zip(relevant, queries, strict=True):
        for i, query in enumerate(its):
            marks[i, list(query.sentence_ids)] = True
    groups = np.repeat(np.arange(len(queries)), [len(its) for its in queries])
    specific = np.array([query.specific for its in queries for query in its])
    fifths = np.array(
        [
            FIFTHS * min(query.sentence_ids) // size
            for its, size in zip(queries, num_sentences, strict=True)
            for query in its
        ]
    )
    results: dict[str, Any] = {}
    scored: dict[str, NDArray[Any]] = {}
    texts = [[query.text for query in its] for its in queries]
    for name, scores in systems.within(documents, texts):
        rows = [
            [measure(rank(row, mark)) for measure in measures.values()]
            + [hit(passages(row, mark, *its), 5)]
            for score, marks, its in zip(scores, relevant, layouts, strict=True)
            for row, mark in zip(score, marks, strict=True)
        ]
        scored[name] = values = np.array(rows)
        results[name] = {"all": summarize(names, values, groups)}
        if not specific.all() and specific.any():
            results[name]["specific"] = summarize(names, values[specific], groups[specific])
        results[name]["by fifth"] = [
            dict(zip(names, (100 * values[fifths == i].mean(0)).round(2).tolist(), strict=True))
            if (fifths == i).any()
            else None
            for i in range(FIFTHS)
        ]
    return {
        "documents": len(documents),
        "sentences": sum(num_sentences),
        "queries": len(groups),
        "specific queries": int(specific.sum()),
        "queries by fifth": np.bincount(fifths, minlength=FIFTHS).tolist(),
        "systems": results,
        "differences": differences(names, scored, groups),
    }


def layout(document: Document) -> tuple[list[int], list[int]]:
    """Return the section of each sentence, and the number of its words."""
    sections = SentencePositions.from_document(document).section_idx.tolist()
    return sections, [num_words(text, document.language) for text in sentence_texts(document)]


def passages(
    scores: Tensor, relevant: Tensor, sections: Sequence[int], words: Sequence[int]
) -> Tensor:
    """Return whether the best passages that `foveate.search` makes hold a relevant sentence."""
    found = windows(scores.tolist(), sections, words, 5)
    return torch.stack([relevant[first : last + 1].any() for first, _, last in found])


def headings(examples: Iterable[Example]) -> Tasks:
    """Turn headings into queries for the sentences of their sections."""
    documents = [example.document for example in examples]
    by_heading = [sections_by_heading(document) for document in documents]
    frequency = Counter(heading.lower() for found in by_heading for heading in found)
    return [
        (
            without_headings(document),
            [
                Query(heading, ids, frequency[heading.lower()] == 1)
                for heading, ids in found.items()
            ],
        )
        for document, found in zip(documents, by_heading, strict=True)
    ]


def sections_by_heading(document: Document) -> dict[str, list[int]]:
    """Return the sentences of the sections with each heading that can be a query."""
    num_sentences = len(sentence_texts(document))
    found: dict[str, list[int]] = {}
    written: dict[str, str] = {}
    for (_, section), part in zip(document.walk(), section_slices(document), strict=True):
        heading = _NUMBERING.sub("", section.title).strip()
        fits = 1 < section.num_sentences <= num_sentences / 2
        if fits and _WORD.search(heading) and len(heading.split()) <= LONGEST_HEADING:
            heading = written.setdefault(heading.lower(), heading)
            found.setdefault(heading, []).extend(range(part.start, part.stop))
    return found


def without_headings(document: Document) -> Document:
    """Remove the headings of a document and keep its sections."""

    def untitled(sections: tuple[Section, ...]) -> tuple[Section, ...]:
        return tuple(
            replace(section, title="", sections=untitled(section.sections)) for section in sections
        )

    return replace(document, sections=untitled(document.sections))


def flat(document: Document) -> Document:
    """Put all paragraphs of a document into one section."""
    return replace(document, sections=(Section("", tuple(document.paragraphs())),))


# Among documents


class About(NamedTuple):
    """A text about a document.

    Attributes:
        sentences: Its sentences.
        document_idx: Index of the document among the candidates.
    """

    sentences: list[str]
    document_idx: int


def run_documents(data: Path, limit: int | None, systems: Systems) -> dict[str, Any]:
    """Rank documents by their summaries, as a whole and by every sentence."""
    dev = [*islice(read_set(data, "papers", "dev"), limit)]
    train = [*islice(read_set(data, "papers", "train"), limit or DISTRACTORS)]
    of_proposals = read_set(data, "proposals", "dev")
    summarized = islice((example for example in of_proposals if example.references), limit)
    of_meetings = [*islice(read_set(data, "meetings", "dev"), limit)]
    sets = {
        "papers": ([without_abstract(example) for example in dev], dev),
        "papers among more": ([without_abstract(example) for example in [*dev, *train]], dev),
        "proposals": tuple(zip(*without_abstracts(summarized), strict=True)),
        "meetings": ([flat(example.document) for example in of_meetings], of_meetings),
    }
    results = {}
    for name, (documents, examples) in sets.items():
        wholes = [About(split(example.references[0]), i) for i, example in enumerate(examples)]
        queries = {
            "sentence": [About([part], i) for sentences, i in wholes for part in sentences],
            "whole": wholes,
        }
        results |= among(name, documents, queries, systems)
    return results


def run_answers(data: Path, limit: int | None, systems: Systems) -> dict[str, Any]:
    """Rank meetings by the answers to the questions about them.

    A question that is asked twice about a meeting counts once. The topics are not in the texts.
    """
    documents: list[Document] = []
    queries: list[About] = []
    examples = read_benchmark("qmsum", data / "qmsum" / "val.jsonl.gz")
    by_meeting = groupby(examples, lambda example: example.id.rpartition(" ")[0])
    for _, of_meeting in islice(by_meeting, limit):
        by_question = {example.query: example for example in of_meeting}
        for example in by_question.values():
            queries.append(About(split(example.references[0]), len(documents)))
        documents.append(flat(example.document))
    return among("meetings", documents, {"answer": queries}, systems)


def among(
    name: str, documents: Sequence[Document], queries: dict[str, list[About]], systems: Systems
) -> dict[str, Any]:
    """Measure all systems on documents, for each kind of query."""
    measures = MEASURES["documents"]
    every = [query for of_kind in queries.values() for query in of_kind]
    results: dict[str, Any] = {
        f"{name}, by {kind}": {"documents": len(documents), "queries": len(of_kind), "systems": {}}
        for kind, of_kind in queries.items()
    }
    scored: dict[str, dict[str, NDArray[Any]]] = {kind: {} for kind in results}
    kinds = np.repeat([*results], [len(of_kind) for of_kind in queries.values()])
    groups = np.array([query.document_idx for query in every])
    relevant = F.one_hot(torch.from_numpy(groups), len(documents)).bool()
    for system, scores in systems.among(documents, [query.sentences for query in every]):
        rows = [
            [measure(rank(row, marks)) for measure in measures.values()]
            for row, marks in zip(scores, relevant, strict=True)
        ]
        values = np.array(rows)
        for kind, of_kind in results.items():
            chosen = kinds == kind
            scored[kind][system] = values[chosen]
            of_kind["systems"][system] = {
                "all": summarize([*measures], values[chosen], groups[chosen])
            }
    for kind, of_kind in results.items():
        its_groups = groups[kinds == kind]
        of_kind["differences"] = differences([*measures], scored[kind], its_groups)
        print_set(kind, of_kind)
    return results


def split(text: str) -> list[str]:
    return sentence_texts(Document.from_text(text, language="en"))


# Tables


def print_set(name: str, results: dict[str, Any]) -> None:
    """Print the results of all systems on a set."""
    print(f"\n{name}: {results['documents']} documents, {results['queries']} queries\n")
    print(table_of({name: its["all"] for name, its in results["systems"].items()}), flush=True)
    for own, others in results["differences"].items():
        print(f"\n{own}, less:\n\n{table_of(others)}", flush=True)


def table_of(systems: dict[str, Any]) -> str:
    """Format each system's means and intervals in percent."""
    measures = next(iter(systems.values()))
    rows = [
        [
            name,
            *(
                f"{cell['mean']:.1f} ({cell['interval'][0]:.1f}–{cell['interval'][1]:.1f})"
                for cell in of_system.values()
            ),
        ]
        for name, of_system in systems.items()
    ]
    return report.table(["", *measures], rows)


@table(PAGE, "within", "retrieval-within.json")
def within_table(results: dict[str, Any]) -> str:
    """Format how well sentences are found."""
    sets = {name: its for name, its in results["sets"].items() if "without" not in name}
    return overview(sets, [*MEASURES["within"]])


@table(PAGE, "documents", "retrieval-documents.json", "retrieval-answers.json")
def documents_table(by_summaries: dict[str, Any], by_answers: dict[str, Any]) -> str:
    """Format how well documents are found by sentences about them."""
    columns = {
        name.removesuffix(", by sentence"): its
        for name, its in (by_summaries["sets"] | by_answers["sets"]).items()
        if not name.endswith(", by whole") and "more" not in name
    }
    return overview(columns, ["R@1", "MRR"])


def overview(sets: dict[str, Any], measures: Sequence[str]) -> str:
    """Format the means of several sets, which are the columns."""
    header = [f"{name}: {its['documents']}, {its['queries']}" for name, its in sets.items()]
    rows = [
        [
            system,
            *(
                " / ".join(f"{its['systems'][system]['all'][m]['mean']:.1f}" for m in measures)
                for its in sets.values()
            ),
        ]
        for system in next(iter(sets.values()))["systems"]
    ]
    return report.table(["", *header], rows)


def differences_table(sets: dict[str, Any], own: str, measures: Sequence[str]) -> str:
    """Format what a system has more of each measure than the others; the columns are the sets."""
    rows = [
        [
            f"{peer}: {measure}",
            *(
                f"{cell['mean']:+.1f} ({cell['interval'][0]:+.1f} to {cell['interval'][1]:+.1f})"
                for cell in (its["differences"][own][peer][measure] for its in sets.values())
            ),
        ]
        for measure in measures
        for peer in next(iter(sets.values()))["differences"][own]
    ]
    return report.table(["less", *sets], rows)
