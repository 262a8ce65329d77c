"""Passkeys and needles: documents of 256 to 32,768 tokens that differ in one place.

At each length there are 100 documents and 50 questions, each about what stands in that place of one
of them. The score is how often that document is ranked first. They are made as Zhu et al. (2024,
https://github.com/dwzhu-pku/LongEmbed) describe. Lengths are in words, of which they count three
for four tokens. The place is a random sentence.

- passkey: a person's pass key, among five short sentences that are repeated over and over;
- needle: a fact about the world, in the first chapters of Moby-Dick. Zhu et al. take Paul Graham's
  essays, which are not free, and facts written by GPT-4; the facts here are our own.

    python -m benchmarks long_context                   # BM25 and MiniLM
    python -m benchmarks long_context --model model     # and an encoder of documents
"""

import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F

from benchmarks import report
from benchmarks.registry import measurement
from benchmarks.retrieval import FIFTHS
from benchmarks.retrieval_measures import SEED, hit, rank
from benchmarks.retrieval_systems import Systems, minilm_path, sentence_texts
from foveate import Document

LENGTHS = [2**n for n in range(8, 16)]
WORDS_PER_TOKEN = 0.75
DOCUMENTS = 100
QUERIES = 50
HAY_BEGINS = "Call me Ishmael."
GARBAGE = [
    "The grass is green.",
    "The sky is blue.",
    "The sun is yellow.",
    "Here we go.",
    "There and back again.",
]
# fmt: off
FIRST_NAMES = [
    "Ada", "Bela", "Cosima", "Davit", "Edda", "Farid", "Greta", "Hanno", "Ilse", "Jorge",
    "Kirsi", "Leif", "Mina", "Nils", "Oona", "Piet", "Quirin", "Rosa", "Sven", "Tilda",
]
LAST_NAMES = [
    "Abara", "Brandt", "Castell", "Dahl", "Ekman", "Ferrante", "Gupta", "Hollis", "Ivanova",
    "Jansen", "Kowal", "Lindt", "Moreau", "Novak", "Okafor", "Pereira", "Quist", "Rossi",
    "Sato", "Tamm",
]
# fmt: on
NEEDLES = Path(__file__).with_name("needles.txt")
"""A question and the fact that answers it, a line."""


class Task(NamedTuple):
    """Documents that differ in one place, and questions about that place.

    Attributes:
        documents: The documents.
        places: Where in each it is: 0 at the beginning, up to 1.
        questions: The questions, about the first documents in their order.
    """

    documents: list[Document]
    places: list[float]
    questions: list[str]


@measurement("long_context.json", "transformers", "numpy")
def long_context(
    data: Path = report.DATA,
    model: str | None = None,
    minilm: str | None = None,
    device: str | None = None,
    dtype: str | None = None,
    lengths: Sequence[int] = LENGTHS,
) -> dict[str, Any]:
    """Measure all systems at each length.

    Options:
        model: name or path of an encoder, by default only the peers
    """
    systems = Systems(minilm or minilm_path(), model, device, dtype)
    hay = {"passkey": GARBAGE, "needle": book(data / "books" / "moby_dick.txt.gz")}
    facts = {"passkey": passkeys(), "needle": needles()}
    results: dict[str, Any] = {}
    for name in facts:
        first = {
            length: measure(make(hay[name], facts[name], length), systems) for length in lengths
        }
        results[name] = {
            system: {
                "by length": {
                    length: round(100 * float(np.mean([one for one, _ in of_system[system]])), 1)
                    for length, of_system in first.items()
                },
                "by fifth": by_fifth([pair for one in first.values() for pair in one[system]]),
            }
            for system in first[lengths[0]]
        }
    print(f"\n{table_of(results)}")
    setting = {
        "model": model and Path(model).name,
        "dtype": dtype,
        "documents": DOCUMENTS,
        "queries": QUERIES,
        "seed": SEED,
    }
    return {"setting": setting, "tasks": results}


def passkeys() -> list[tuple[str, list[str]]]:
    """Invent pass keys: for each person a question, and the sentences that answer it."""
    draw = random.Random(SEED)
    people = [f"{first} {last}" for first in FIRST_NAMES for last in LAST_NAMES]
    keys = draw.sample(range(10_000, 100_000), DOCUMENTS)
    return [
        (
            f"What is the pass key for {person}?",
            [
                f"{person}'s pass key is {key}.",
                "Remember it.",
                f"{key} is the pass key for {person}.",
            ],
        )
        for person, key in zip(draw.sample(people, DOCUMENTS), keys, strict=True)
    ]


def needles() -> list[tuple[str, list[str]]]:
    """Return the facts in random order: for each a question, and the sentence that answers it."""
    pairs = [line.split(" | ") for line in NEEDLES.read_text(encoding="utf-8").splitlines()]
    return random.Random(SEED).sample([(question, [fact]) for question, fact in pairs], DOCUMENTS)


def book(path: Path) -> list[str]:
    """Return the sentences of a book from where its story begins."""
    sentences = sentence_texts(Document.from_file(path, language="en"))
    return sentences[sentences.index(HAY_BEGINS) :]


def make(hay: Sequence[str], facts: Sequence[tuple[str, list[str]]], length: int) -> Task:
    """Hide each fact at a random place of the hay.

    Args:
        hay: Sentences, which are repeated if they are too few.
        facts: Each question with its answer.
        length: Longest document in tokens.

    Raises:
        ValueError: A fact does not fit into the length.
    """
    draw = random.Random(SEED + length)
    documents, places = [], []
    for _, fact in facts:
        before = [*fill(hay, length * WORDS_PER_TOKEN - sum(map(num_words, fact)))]
        place = draw.randint(0, len(before))
        sentences = [*before[:place], *fact, *before[place:]]
        documents.append(Document.from_sections("", [("", sentences)], language="en"))
        places.append(place / len(before))
    return Task(documents, places, [question for question, _ in facts[:QUERIES]])


def fill(hay: Sequence[str], words: float) -> Iterator[str]:
    """Repeat the hay as long as the next sentence fits into the number of words."""
    i = 0
    while (words := words - num_words(hay[i % len(hay)])) >= 0:
        yield hay[i % len(hay)]
        i += 1


def num_words(sentence: str) -> int:
    return len(sentence.split())


def measure(task: Task, systems: Systems) -> dict[str, list[tuple[float, float]]]:
    """Return for each system whether it answered each question, and where the answer stands."""
    relevant = F.one_hot(torch.arange(len(task.questions)), len(task.documents)).bool()
    return {
        system: [
            (hit(rank(row, marks), 1), place)
            for row, marks, place in zip(scores, relevant, task.places, strict=False)
        ]
        for system, scores in systems.among(task.documents, [[q] for q in task.questions])
    }


def by_fifth(pairs: Sequence[tuple[float, float]]) -> list[float | None]:
    """Return the percentage of answers found in each fifth of the documents."""
    fifths = [min(int(FIFTHS * place), FIFTHS - 1) for _, place in pairs]
    found = [
        [found for (found, _), fifth in zip(pairs, fifths, strict=True) if fifth == i]
        for i in range(FIFTHS)
    ]
    return [round(100 * float(np.mean(of_fifth)), 1) if of_fifth else None for of_fifth in found]


def table_of(results: dict[str, Any]) -> str:
    """Format the mean over lengths, and the greatest length, of each task."""
    header, columns = [""], []
    for name, of_systems in results.items():
        lengths = [*next(iter(of_systems.values()))["by length"]]
        header += [f"{name}: mean", f"{int(lengths[-1]):,} tokens"]
        columns.append({s: [*its["by length"].values()] for s, its in of_systems.items()})
    rows = [
        [system, *(f"{x:.0f}" for c in columns for x in (np.mean(c[system]), c[system][-1]))]
        for system in columns[0]
    ]
    return report.table(header, rows)
