"""Weights of vectors and words in the scores of `foveate.search`.

Sentences are ranked by queries about their document. Topics are

- papers (ScisummNet), PEPs and proposals: the headings that no other of the documents has; none is
  left in the documents.
- names in these: words such as "free_list" or "PyObject" that stand in few of their document's
  sentences, which they have to find.

Questions are

- meetings (QMSum): the specific questions, with QMSum's topics as sections, and without sections;
- articles of Wikipedia (SQuAD), papers (COVID-QA) and privacy policies (PolicyQA): questions of
  people about the documents for development;
- questions.jsonl: questions that one sentence answers, asked of its document, and of all documents
  of the same part. `document` is a file of ../examples, or a set and an id;
  `answers` are the first words of the sentences that answer.

Sections are ranked by the headings, and are relevant if at least half of their own sentences are.
Documents are ranked by each sentence of the human summary of a paper or a meeting, and of a
proposal's abstract; abstracts are cut out.

At most `--queries` of a set are drawn. What a query names exactly counts as it does in
`foveate.search`. All weights in steps of 0.05 are tried. Chosen are those with the highest mean
over sets and measures among those that lose nothing that could be told from chance: against the
first part alone, no measure of any set falls by more than the standard error of the difference or,
if that is so for no weights, by as few standard errors as possible. Words have a weight of 0.05 at
least, because without headings in the documents no query here shows what those of headings are
worth. The questions of the part "dev" have no say in it.

The vectors of an encoder that was trained on these documents are better there than elsewhere, so
its weights are chosen on the documents for development.

    python -m benchmarks fusion --split dev
    python -m benchmarks fusion --model MINILM --limit 32 --output fusion-minilm.json
"""

import json
import random
import re
from collections import Counter
from collections.abc import Sequence
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor

from benchmarks import report
from benchmarks.asked_questions import read_questions
from benchmarks.registry import measurement
from benchmarks.retrieval import Query, flat, headings, without_headings
from benchmarks.structured_documents import read_set, without_abstract
from foveate import Document, Encoder
from foveate.data import Example
from foveate.documents.sentences import split_sentences
from foveate.inference import DocumentVectors
from foveate.tasks.centrality import SentencePositions
from foveate.tasks.relevance import Matches, encode_query, match
from foveate.tasks.weights import NAMED

QUESTIONS = Path(__file__).parent / "questions.jsonl"
T = TypeVar("T")
Split = Literal["train", "dev"]
LIMIT = 40  # documents of a set; half as many meetings, which are long
QUERIES = 200  # of a set
STEPS = 20  # of a weight between 0 and 1
MIN_WEIGHT = 0.05  # of words
NAMES = 8  # of a document
FEW = 3  # sentences that a name stands in
TOP_K = 10
SEED = 0
MEASURES = ("hit@1", "nDCG@10")
_NAME = re.compile(r"\b\w*(?:[a-z][A-Z]|_|[A-Za-z]\d|\d[A-Za-z])\w*\b")
PARTS = {
    "questions": ("r(s, q)", "r(S, q)", "w(s, q)", "b(s)", "b(S)"),
    "topics": ("r(s, q)", "r(S, q)", "w(s, q)", "b(s)", "b(S)"),
    "sections": ("max r(s, q)", "r(S, q)", "b(S)"),
    "documents": ("mean max r(s, p)", "b(D)"),
}


@measurement("fusion.json", "transformers")
def fusion(
    data: Path = report.DATA,
    model: str | None = None,
    device: str | None = None,
    split: Split = "train",
    limit: int = LIMIT,
    queries: int = QUERIES,
) -> dict[str, Any]:
    """Choose the weights of every kind of query.

    Options:
        split: of the documents
        queries: at most of a set
    """
    encoder = Encoder.from_pretrained(model, device=device)
    judged = judge_all(data, split, limit, encoder)
    results = {
        kind: choose({name: draw(its, queries) for name, its in sets.items()}, PARTS[kind])
        for kind, sets in judged.items()
    }
    for kind, result in results.items():
        print_result(kind, result)
    setting = {"model": model, "split": split, "limit": limit, "queries": queries}
    return {"setting": setting, **results}


# Queries and what they match


class Judged(NamedTuple):
    """A query, and what of the candidates is relevant to it.

    Attributes:
        features: `(candidates, parts)`, see `foveate.tasks.relevance.Matches`; of sentences, and
            how they match what the query names exactly, `(candidates, parts + 1)`.
        relevant: `(candidates,)` bool.
    """

    features: Tensor
    relevant: Tensor


Sets = dict[str, list[Judged]]


def judge_all(data: Path, split: Split, limit: int, encoder: Encoder) -> dict[str, Sets]:
    """Compare the queries of all sets with their candidates."""
    examples = {
        name: draw(read(data, name, split), limit // 2 if name == "meetings" else limit)
        for name in ("meetings", "papers", "PEPs", "proposals")
    }
    judged: dict[str, Sets] = {kind: {} for kind in PARTS}
    tasks = [(without_headings(one.document), one.queries) for one in examples["meetings"]]
    judged["questions"]["meetings"], _ = judge(tasks, encoder)
    tasks = [(flat(document), queries) for document, queries in tasks]
    judged["questions"]["meetings without sections"], _ = judge(tasks, encoder)
    for name in ("papers", "PEPs", "proposals"):
        judged["topics"][name], judged["sections"][name] = judge(
            [
                (document, [query for query in queries if query.specific])
                for document, queries in headings(examples[name])
            ],
            encoder,
        )
        tasks = [(its.document, names(its.document)) for its in examples[name]]
        judged["topics"][f"names in {name}"], _ = judge(tasks, encoder)
    for name in ("squad", "covid", "policies"):
        tasks = [(one.document, one.queries) for one in read_questions(data, name, "dev")]
        judged["questions"][name], _ = judge(tasks, encoder)
    for part in ("train", "dev"):
        tasks = questions(QUESTIONS, part, data)
        name = f"questions, {part}"
        judged["questions"][name], _ = judge(tasks, encoder)
        judged["questions"][f"{name}, all documents"] = judge_together(tasks, encoder)
    for name in ("meetings", "papers", "proposals"):
        judged["documents"][name] = judge_documents(examples[name], encoder)
    return judged


@cache
def read(data: Path, name: str, split: Split) -> list[Example]:
    """Read the documents of a set."""
    return list(read_set(data, name, split))


def draw(examples: Sequence[T], limit: int) -> list[T]:
    """Draw some at random, the same each time."""
    return random.Random(SEED).sample(examples, min(limit, len(examples)))


def judge(
    tasks: Sequence[tuple[Document, Sequence[Query]]], encoder: Encoder
) -> tuple[list[Judged], list[Judged]]:
    """Compare queries with the sentences and with the sections of their document."""
    of_sentences, of_sections = [], []
    for document, queries in tasks:
        vectors = encoder.encode(document, show_progress=False)
        section_idx = SentencePositions.from_document(document).section_idx
        for query in queries:
            if not query.sentence_ids:
                continue
            found = compare(query.text, [document], [vectors], encoder)
            relevant = marks(len(section_idx), query.sentence_ids)
            of_sentences.append(Judged(of_all_sentences(found), relevant))
            sizes = torch.bincount(section_idx, minlength=len(found.sections[0]))
            counts = torch.bincount(section_idx[relevant], minlength=len(sizes))
            features = torch.from_numpy(found.sections[0])
            of_sections.append(Judged(features, (counts > 0) & (2 * counts >= sizes)))
    return of_sentences, [one for one in of_sections if one.relevant.any()]


def names(document: Document) -> list[Query]:
    """Draw words that are no plain words, with the few sentences that each stands in."""
    found = [set(_NAME.findall(sentence.text)) for sentence in document.sentences()]
    counts = Counter(name for of_sentence in found for name in of_sentence)
    rare = sorted(name for name, count in counts.items() if count <= FEW)
    return [
        Query(name, [idx for idx, of_sentence in enumerate(found) if name in of_sentence])
        for name in random.Random(SEED).sample(rare, min(NAMES, len(rare)))
    ]


def judge_together(
    tasks: Sequence[tuple[Document, Sequence[Query]]], encoder: Encoder
) -> list[Judged]:
    """Compare queries with the sentences of all documents."""
    documents = [document for document, _ in tasks]
    vectors = encoder.encode(documents, show_progress=False)
    judged = []
    for idx, (_, queries) in enumerate(tasks):
        for query in queries:
            found = compare(query.text, documents, vectors, encoder)
            relevant = [
                marks(len(features), query.sentence_ids if i == idx else ())
                for i, features in enumerate(found.sentences)
            ]
            judged.append(Judged(of_all_sentences(found), torch.cat(relevant)))
    return judged


def judge_documents(examples: Sequence[Example], encoder: Encoder) -> list[Judged]:
    """Compare sentences about documents with the documents."""
    chosen = [one for one in examples if one.references]
    documents = [without_abstract(one) for one in chosen]
    vectors = encoder.encode(documents, show_progress=False)
    return [
        Judged(
            torch.from_numpy(compare(text, documents, vectors, encoder).documents),
            marks(len(documents), [idx]),
        )
        for idx, one in enumerate(chosen)
        for text in sentences(one.references[0])
    ]


def compare(
    text: str, documents: Sequence[Document], vectors: Sequence[DocumentVectors], encoder: Encoder
) -> Matches:
    """Compare a query with documents."""
    return match(encode_query(text, documents[0].language, encoder), documents, vectors)


def of_all_sentences(found: Matches) -> Tensor:
    """Return the features of the sentences of all documents, and how they match names."""
    features = np.concatenate(found.sentences), np.concatenate(found.names)[:, None]
    return torch.from_numpy(np.concatenate(features, 1))


def questions(path: Path, part: str, data: Path) -> list[tuple[Document, list[Query]]]:
    """Read the questions of a part, with their documents."""
    lines = path.read_text(encoding="utf-8").splitlines()
    records = [record for record in map(json.loads, lines) if record["part"] == part]
    tasks = []
    for name in dict.fromkeys(record["document"] for record in records):
        document = named_document(name, data)
        asked = [
            Query(record["query"], [sentence_idx(document, start) for start in record["answers"]])
            for record in records
            if record["document"] == name
        ]
        tasks.append((document, asked))
    return tasks


def sentence_idx(document: Document, start: str) -> int:
    """Return the index of the sentence that starts with these words."""
    texts = [sentence.text for sentence in document.sentences()]
    return next(i for i, text in enumerate(texts) if text.startswith(start))


def named_document(name: str, data: Path) -> Document:
    """Read the document of a question: of the folder of examples, or of a training set."""
    folder, _, id = name.partition("/")  # a file, or a set and an id
    if folder == "examples":
        return Document.from_file(report.ROOT / name)
    return next(one.document for one in read(data, folder, "train") if one.id == id)


def sentences(text: str) -> list[str]:
    return [text[start:end] for start, end in split_sentences(text)]


def marks(size: int, indices: Sequence[int]) -> Tensor:
    """Return `(size,)` bool, true at the indices."""
    marked = torch.zeros(size, dtype=torch.bool)
    marked[list(indices)] = True
    return marked


# Weights


def choose(sets: Sets, parts: Sequence[str]) -> dict[str, Any]:
    """Choose weights of the parts by all sets but those of the part "dev"."""
    grid = simplex(len(parts))
    vectors = int(grid[:, 0].argmax())
    measured = {name: measure(judged, grid) for name, judged in sets.items()}
    values = {name: value.mean(0) for name, value in measured.items()}
    deciding = [name for name in sets if "dev" not in name]
    mean = torch.stack([values[name] for name in deciding]).mean((0, 1))
    losses = [measured[name][..., vectors, None] - measured[name] for name in deciding]
    loss = torch.stack([of_set.mean(0) for of_set in losses]).amax((0, 1))
    errors = torch.stack([in_standard_errors(of_set) for of_set in losses]).amax((0, 1))
    words = torch.tensor([part.startswith("b") for part in parts])
    has_words = (grid[:, words] >= MIN_WEIGHT).all(1)
    allowed = has_words & (errors <= max(1.0, float(errors[has_words].min())))
    chosen = int(mean.where(allowed, -torch.inf).argmax())
    forms = {
        "vectors": vectors,
        "words": int(grid[:, parts.index("b(s)") if "b(s)" in parts else -1].argmax()),
        "all alike": int((grid - 1 / len(parts)).abs().sum(1).argmin()),
        "highest mean": int(mean.argmax()),
        "chosen": chosen,
    }
    return {
        "parts": parts,
        "queries": {name: len(judged) for name, judged in sets.items()},
        "forms": {
            form: {
                "weights": [round(weight, 2) for weight in grid[i].tolist()],
                "mean": round(float(mean[i]), 2),
                "worst loss": round(float(loss[i]), 2),
                "sets": {
                    name: dict(zip(MEASURES, value[:, i].round(decimals=2).tolist(), strict=True))
                    for name, value in values.items()
                },
            }
            for form, i in forms.items()
        },
    }


def simplex(size: int) -> Tensor:
    """List all weights in steps that sum to 1: `(points, size)` float64."""
    points = [point for point in product(range(STEPS + 1), repeat=size) if sum(point) == STEPS]
    return torch.tensor(points, dtype=torch.float64) / STEPS


def measure(judged: Sequence[Judged], grid: Tensor) -> Tensor:
    """Measure rankings by every point of a grid, in percent: `(queries, measures, points)`."""
    discounts = 1 / torch.arange(2, TOP_K + 2, dtype=torch.float64).log2()
    measured = []
    for features, relevant in judged:
        scores = features[:, : grid.shape[1]].double() @ grid.T
        if features.shape[1] > grid.shape[1]:
            scores += NAMED * features[:, -1:] * (1 - scores)
        best = scores.topk(min(TOP_K, len(scores)), dim=0).indices
        found = relevant.double()[best]
        ideal = discounts[: int(relevant.sum())].sum()
        gain = (discounts[: len(found), None] * found).sum(0) / ideal
        measured.append(torch.stack([found[0], gain]))
    return 100 * torch.stack(measured)


def in_standard_errors(losses: Tensor) -> Tensor:
    """Divide the mean over `(queries, …)` by its standard error; 0 if nothing is lost."""
    mean = losses.mean(0)
    error = losses.std(0) / len(losses) ** 0.5
    return torch.where(mean > 0, mean / error.clamp(min=1e-9), 0).round(decimals=6)


def print_result(kind: str, result: dict[str, Any]) -> None:
    """Print a table of the forms: hit@1 / nDCG@10 of each set."""
    rows = [
        [
            form,
            " ".join(map(str, values["weights"])),
            values["mean"],
            values["worst loss"],
            *(
                " / ".join(f"{v:.1f}" for v in of_set.values())
                for of_set in values["sets"].values()
            ),
        ]
        for form, values in result["forms"].items()
    ]
    names = [f"{name} ({count})" for name, count in result["queries"].items()]
    header = [kind, ", ".join(result["parts"]), "mean", "worst loss", *names]
    print(report.table(header, rows), end="\n\n")
