"""Questions that people asked: how often the first passage shown, or one of five, holds the answer.

The questions are those of SQuAD 2.0, COVID-QA and PolicyQA, about the documents of which the
default model was trained on none, and of XQuAD, about those articles that SQuAD has not. Up to
`--limit` questions are drawn per document, half as many of XQuAD and PolicyQA, whose documents are
short. They are asked

- within their document;
- among all documents of the set. PolicyQA asks the same of all policies, so it is left out.

A passage holds the answer if it has a sentence in which the answer lies. Systems show passages as
`foveate.search` does, up to five sentences and 100 words around the best, or chunks of as many,
which are cut within paragraphs. `foveate.ask` shows the best sentence: its share counts the
questions of which it holds the answer, of those whose first passage does.

Words that must match exactly are searched, too: numbers of flaws and of versions, in 40 sentences
that differ in nothing else, and phrases in quotation marks. The right sentence has to be the first.

    python -m benchmarks questions                  # BM25, MiniLM and the default model
    python -m benchmarks questions --e5 FOLDER      # and multilingual-e5-small

Intervals hold 95 % of the mean differences over resampled documents.
"""

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks import report
from benchmarks.asked_questions import read_questions
from benchmarks.registry import measurement, table
from benchmarks.retrieval import PAGE, differences_table, overview, print_set
from benchmarks.retrieval_measures import OWN, RESAMPLES, SEED, differences, summarize
from benchmarks.retrieval_systems import SentenceEncoder, match_words, minilm_path, sentence_texts
from foveate import Document, Encoder, search
from foveate.data import Query
from foveate.inference import DocumentVectors
from foveate.tasks.centrality import unit
from foveate.tasks.hits import Hit
from foveate.tasks.passages import best_passages, num_words
from foveate.tasks.surroundings import sentences_of

SETS = {"SQuAD": "squad", "COVID-QA": "covid", "PolicyQA": "policies", "XQuAD": "xquad.en"}
SHORT = ("PolicyQA", "XQuAD")
"""Sets of short documents, of which half as many questions are drawn."""

TOP_K = 5
CHUNK_SENTENCES, CHUNK_WORDS = 5, 100
MEASURES = ["hit@1", "hit@5"]
ALL = "all sets"
LIKE = 40  # sentences that differ in one word
PHRASE_WORDS = 4


class Found(NamedTuple):
    """What a system shows.

    Attributes:
        document_idx: Index of its document among those searched.
        sentences: The sentences in it, as indices of those of the document.
        best: The sentence that matches best; None of a chunk with several.
    """

    document_idx: int
    sentences: range
    best: int | None


System = Callable[[Sequence[Document], Sequence[str]], Iterable[list[Found]]]
"""Finds the best passages of documents for each query."""


@measurement("questions.json", "transformers", "sentence-transformers", "numpy")
@torch.inference_mode()
def questions(
    data: Path = report.DATA,
    model: str | None = None,
    minilm: str | None = None,
    e5: str | None = None,
    device: str | None = None,
    dtype: str | None = None,
    part: Literal["dev", "train", "all"] = "dev",
    limit: int = 25,
) -> dict[str, Any]:
    """Ask all systems.

    Options:
        e5: folder of multilingual-e5-small
        part: of the documents
        limit: questions about a document
    """
    systems = load_systems(minilm or minilm_path(), e5, model, device, dtype)
    sets = {name: read_asked(data, name, part, limit) for name in SETS}
    results: dict[str, Any] = {
        "setting": {
            "part": part,
            "limit": limit,
            "model": model and Path(model).name,
            "dtype": dtype,
            "resamples": RESAMPLES,
            "seed": SEED,
        },
        "within": compare(sets, systems, within),
    }
    of_one = {name: asked for name, asked in sets.items() if name != "PolicyQA"}
    results["among"] = compare(of_one, systems, among)
    results["exact"] = exact(sets["SQuAD"], systems)
    return results


# Questions


Asked = Sequence[tuple[Document, Sequence[Query]]]
"""Documents, each with questions about it."""


def read_asked(data: Path, name: str, part: str, limit: int) -> Asked:
    """Read a part of a set, or of XQuAD all articles that SQuAD has not, and draw questions."""
    examples = read_questions(data, SETS[name], "all" if name == "XQuAD" else part)
    if name == "XQuAD":
        known = {example.document.title for example in read_questions(data, SETS["SQuAD"])}
        examples = [example for example in examples if example.document.title not in known]
    if name in SHORT:
        limit = (limit + 1) // 2
    draw = random.Random(SEED)
    return [
        (one.document, draw.sample(one.queries, min(limit, len(one.queries))))
        for one in examples
        if one.queries
    ]


def within(asked: Asked, system: System) -> Iterator[tuple[float, float, float]]:
    """Ask the questions of their documents."""
    for document, queries in asked:
        found = system([document], [query.text for query in queries])
        for query, its in zip(queries, found, strict=True):
            yield measure(its, 0, query.sentence_ids)


def among(asked: Asked, system: System) -> Iterator[tuple[float, float, float]]:
    """Ask the questions of all documents together."""
    right = [(idx, query) for idx, (_, queries) in enumerate(asked) for query in queries]
    found = system([document for document, _ in asked], [query.text for _, query in right])
    for (idx, query), its in zip(right, found, strict=True):
        yield measure(its, idx, query.sentence_ids)


def measure(
    found: Sequence[Found], document_idx: int, sentence_ids: Sequence[int]
) -> tuple[float, float, float]:
    """Return whether the first passage, one of five, and the best sentence hold the answer."""
    answers = {*sentence_ids}
    hits = [one.document_idx == document_idx and bool(answers & {*one.sentences}) for one in found]
    return hits[0], any(hits[:TOP_K]), hits[0] and found[0].best in answers


def compare(
    sets: dict[str, Asked],
    systems: dict[str, System],
    ask: Callable[[Asked, System], Iterable[tuple[float, float, float]]],
) -> dict[str, Any]:
    """Measure all systems on each set, and on all sets together."""
    groups = {
        name: np.array([i for i, (_, queries) in enumerate(asked) for _ in queries])
        for name, asked in sets.items()
    }
    scored = {
        name: {
            system: np.array([*ask(asked, find)], dtype=float) for system, find in systems.items()
        }
        for name, asked in sets.items()
    }
    starts = np.cumsum([0, *(len(asked) for asked in sets.values())])
    groups[ALL] = np.concatenate(
        [start + its for start, its in zip(starts[:-1], groups.values(), strict=True)]
    )
    scored[ALL] = {
        system: np.concatenate([its[system] for its in scored.values()]) for system in systems
    }
    results = {}
    for name, its in scored.items():
        results[name] = summaries(its, groups[name])
        print_set(f"{ask.__name__}, {name}", results[name])
    return results


def summaries(scored: dict[str, NDArray[Any]], groups: NDArray[Any]) -> dict[str, Any]:
    """Return means, intervals and differences of the systems on a set."""
    hits = {system: values[:, : len(MEASURES)] for system, values in scored.items()}
    return {
        "documents": len(np.unique(groups)),
        "queries": len(groups),
        "systems": {
            system: {"all": summarize(MEASURES, its, groups)} for system, its in hits.items()
        },
        "best sentence": {
            system: round(100 * values[:, -1].sum() / max(values[:, 0].sum(), 1), 1)
            for system, values in scored.items()
            if "chunks" not in system
        },
        "differences": differences(MEASURES, hits, groups),
    }


# Words that must match exactly


def exact(asked: Asked, systems: dict[str, System]) -> dict[str, Any]:
    """Count for each kind and system how often the right sentence is first, in percent."""
    sought = {"flaws": flaws(), "versions": versions(), "phrases": phrases(asked)}
    results: dict[str, Any] = {
        kind: {"queries": sum(len(queries) for _, queries in its), "systems": {}}
        for kind, its in sought.items()
    }
    for kind, its in sought.items():
        for system, find in systems.items():
            rows = np.array([*within(its, find)], dtype=float)
            column = 0 if kind == "phrases" else -1  # others are beside sentences like them
            results[kind]["systems"][system] = round(100 * rows[:, column].mean(), 1)
    return results


def flaws() -> Asked:
    """Describe flaws that differ in their number only, and ask for each."""
    draw = random.Random(SEED)
    numbers = [f"{draw.randint(2015, 2025)}-{n}" for n in draw.sample(range(10_000, 60_000), LIKE)]
    return alike(
        "A flaw in the parser of the image viewer, CVE-{}, lets attackers run code from a file.",
        ("CVE-{}", "What is known about CVE-{}?", "which component is affected by cve-{}"),
        numbers,
    )


def versions() -> Asked:
    """Describe releases that differ in their number only, and ask for each."""
    every = [
        f"{major}.{minor}.{patch}"
        for major in (1, 2)
        for minor in range(9, 15)
        for patch in range(9)
    ]
    return alike(
        "Version {} fixes a crash when the same file is opened twice.",
        ("version {}", "What was fixed in {}?", "What changed in v{}?"),
        random.Random(SEED).sample(every, LIKE),
    )


def alike(sentence: str, queries: Sequence[str], numbers: Sequence[str]) -> Asked:
    """Return a document with a sentence for each number, in a paragraph of its own."""
    text = "\n\n".join(sentence.format(number) for number in numbers)
    document = Document.from_sections("", [("", text)], language="en")
    return [
        (
            document,
            [
                Query(query.format(number), (i,))
                for i, number in enumerate(numbers)
                for query in queries
            ],
        )
    ]


def phrases(asked: Asked) -> Asked:
    """Draw phrases of documents, put them in quotation marks, and look for where they are."""
    draw = random.Random(SEED)
    found = []
    for document, _ in asked:
        texts = sentence_texts(document)
        queries: list[Query] = []
        for i in draw.sample(range(len(texts)), len(texts)):
            words = texts[i].split()
            start = draw.randrange(max(len(words) - PHRASE_WORDS, 1))
            phrase = " ".join(words[start : start + PHRASE_WORDS])
            if len(words) > PHRASE_WORDS and sum(phrase in text for text in texts) == 1:
                queries.append(Query(f'"{phrase}"', (i,)))
            if len(queries) == LIKE:
                break
        found.append((document, queries))
    return found


# Systems


def load_systems(
    minilm: str, e5: str | None, model: str | None, device: str | None, dtype: str | None
) -> dict[str, System]:
    """Load encoders, and say how each of them finds passages."""
    paths = {"MiniLM": minilm} | ({"e5": e5} if e5 else {})
    systems: dict[str, System] = {"BM25": by_words}
    for name, path in paths.items():
        encoder = Encoder.from_pretrained(path, context="sentence", device=device, dtype=dtype)
        systems[f"{name}, chunks"] = partial(by_chunks, SentenceEncoder(encoder))
        systems[f"{name}, fused"] = partial(in_search, keep_vectors(encoder))
    own = keep_vectors(Encoder.from_pretrained(model, device=device, dtype=dtype))
    return systems | dict(
        zip(OWN, (partial(by_vectors, own), partial(in_search, own)), strict=True)
    )


def keep_vectors(encoder: Encoder) -> Encoder:
    """Let an encoder read each document once, as long as this runs."""
    encode = encoder.encode
    kept: dict[int, tuple[Document, DocumentVectors]] = {}

    def once(documents: Sequence[Document]) -> list[DocumentVectors]:
        new = [document for document in documents if id(document) not in kept]
        kept.update((id(one), (one, its)) for one, its in zip(new, encode(new), strict=True))
        return [kept[id(document)][1] for document in documents]

    encoder.encode = once
    return encoder


def in_search(
    encoder: Encoder, documents: Sequence[Document], queries: Sequence[str]
) -> Iterator[list[Found]]:
    """Find passages as `foveate.search` does."""
    for query in queries:
        found = search(query, documents, top_k=TOP_K, model=encoder, thorough=True)
        yield located(found, documents)


def by_vectors(
    encoder: Encoder, documents: Sequence[Document], queries: Sequence[str]
) -> Iterator[list[Found]]:
    """Find passages by the cosines of sentences alone."""
    sentences = torch.cat([unit(its.sentences) for its in encoder.encode(documents)])
    for scores in unit(encoder.encode_queries(queries)) @ sentences.T:
        yield located(best_passages(documents, scores, TOP_K), documents)


def by_words(documents: Sequence[Document], queries: Sequence[str]) -> Iterator[list[Found]]:
    """Find passages by BM25 of sentences."""
    texts = [text for document in documents for text in sentence_texts(document)]
    for scores in match_words(texts, queries):
        yield located(best_passages(documents, scores, TOP_K), documents)


def located(hits: Sequence[Hit], documents: Sequence[Document]) -> list[Found]:
    """Find the sentences of hits."""
    starts = {
        idx: [span.start for span in documents[idx].spans()]
        for idx in {hit.document_idx for hit in hits}
    }
    return [
        Found(
            hit.document_idx,
            sentences_of(hit.span, starts[hit.document_idx]),
            sentences_of(hit.best, starts[hit.document_idx]).start,
        )
        for hit in hits
    ]


def by_chunks(
    encoder: SentenceEncoder, documents: Sequence[Document], queries: Sequence[str]
) -> Iterator[list[Found]]:
    """Find chunks by the cosines of their vectors."""
    found, texts = [], []
    for idx, document in enumerate(documents):
        sentences = sentence_texts(document)
        for part in chunks(document):
            found.append(Found(idx, part, part.start if len(part) == 1 else None))
            texts.append(" ".join(sentences[part.start : part.stop]))
    wanted = unit(encoder.encoder.encode_queries(queries))
    cosines = wanted @ unit(encoder.encode_texts(texts)).T
    for row in cosines.argsort(dim=1, descending=True, stable=True)[:, :TOP_K].tolist():
        yield [found[i] for i in row]


def chunks(document: Document) -> Iterator[range]:
    """Cut paragraphs into runs of sentences as long as a passage; yield the sentences of each."""
    first = 0
    for paragraph in document.paragraphs():
        end, words = first, 0
        for sentence in paragraph.sentences:
            added = num_words(sentence.text, document.language)
            if end > first and (end - first == CHUNK_SENTENCES or words + added > CHUNK_WORDS):
                yield range(first, end)
                first, words = end, 0
            end, words = end + 1, words + added
        if end > first:
            yield range(first, end)
        first = end


# Tables


def every_set(results: dict[str, Any]) -> dict[str, Any]:
    """Return the results of each set, within documents and among them."""
    return results["within"] | {f"{name}, among": its for name, its in results["among"].items()}


@table(PAGE, "questions", "questions.json")
def questions_table(results: dict[str, Any]) -> str:
    """Format how often the passages shown hold the answer."""
    sets = {name: its for name, its in every_set(results).items() if not name.startswith(ALL)}
    return overview(sets, MEASURES)


@table(PAGE, "questions less", "questions.json")
def less_table(results: dict[str, Any]) -> str:
    """Format what `search` finds more often than the others."""
    sets = {name: its for name, its in every_set(results).items() if name.startswith(ALL)}
    return differences_table(sets, OWN[-1], MEASURES[:1])


@table(PAGE, "questions best", "questions.json")
def best_table(results: dict[str, Any]) -> str:
    """Format how often the best sentence holds the answer, where the first passage does."""
    shares = results["within"][ALL]["best sentence"]
    return report.table([*shares], [[f"{share:.1f}" for share in shares.values()]])


@table(PAGE, "exact", "questions.json")
def exact_table(results: dict[str, Any]) -> str:
    """Format how often the right sentence is the first."""
    kinds = results["exact"]
    header = [f"{kind}: {its['queries']}" for kind, its in kinds.items()]
    systems = next(iter(kinds.values()))["systems"]
    rows = [[name, *(f"{its['systems'][name]:.0f}" for its in kinds.values())] for name in systems]
    return report.table(["", *header], rows)
