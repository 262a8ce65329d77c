"""Whether a document answers a question at all: the score below which nine of ten are wrong.

Each question of a development set is asked of its own document and of another of the same set, and
general questions, which none of them answers, are asked of all. Headings are questions if no other
document has them. A document's score is that of the first passage, as `search` returns it. The
point is the highest score such that, of the pairs of a question and a document below it, nine in
ten do not belong together. For this, right and wrong pairs count the same, half of the wrong ones
are general questions, and all sets count the same. The point is `min_likely_score` in the
configuration of the model.

SQuAD 2.0 also has questions that its articles do not answer, though they look as if they did. For
several points: the shares of these and of the others whose first passage would be unlikely.

    python -m benchmarks likely
"""

import json
import lzma
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks import report
from benchmarks.asked_questions import read_questions
from benchmarks.questions import Asked, keep_vectors
from benchmarks.registry import measurement, table
from benchmarks.retrieval import PAGE, Query, Tasks, tasks_of
from benchmarks.retrieval_measures import SEED
from foveate import Document, Encoder, search

WRONG = 0.9
POINTS = np.arange(0.02, 0.61, 0.02)
QUESTIONS = 60  # of each kind about each article
GENERAL = (
    "What is the capital of Australia?",
    "How do I bake sourdough bread?",
    "Who won the football world cup in 1998?",
    "What does a blue whale weigh?",
    "When was the Eiffel Tower built?",
    "How many planets orbit the sun?",
    "Which vitamins are in oranges?",
    "How is the offside rule defined?",
    "treatment of type 2 diabetes",
    "history of the Roman empire",
    "guitar chords for beginners",
    "mortgage interest rates",
)


@measurement("likely.json")
@torch.inference_mode()
def likely(data: Path = report.DATA, model: str | None = None, limit: int = 8) -> dict[str, Any]:
    """Choose the point, and measure which pairs are below it."""
    encoder = keep_vectors(Encoder.from_pretrained(model))
    names = ("meetings", "papers", "PEPs", "proposals")
    sets = {name: tasks_of(data, name, "dev", limit) for name in names}
    scores = {name: score(tasks, encoder) for name, tasks in sets.items()}
    point = choose([*scores.values()])
    pairs = {name: shares(point, *of_set) for name, of_set in scores.items()}
    articles = [(one.document, one.queries) for one in read_questions(data, "squad", "dev")]
    unlikely = {
        kind: below(best_scores(asked, encoder))
        for kind, asked in (("answered", articles), ("unanswered", unanswered(data, articles)))
    }
    setting = {
        "model": model,
        "limit": limit,
        "wrong": WRONG,
        "general": len(GENERAL),
        "questions": QUESTIONS,
        "seed": SEED,
        "points": POINTS.round(2).tolist(),
    }
    print(f"likely from {point:.3f}")
    return {"setting": setting, "point": point, "below": pairs, "SQuAD": unlikely}


def score(tasks: Tasks, encoder: Encoder) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the best scores of right pairs, wrong pairs, and general questions."""
    tasks = [(document, queries) for document, queries in tasks if queries]
    encoder.encode([document for document, _ in tasks])
    asked = [(idx, q.text) for idx, (_, its) in enumerate(tasks) for q in its if q.specific]
    right = [best(text, tasks[idx][0], encoder) for idx, text in asked]
    wrong = [best(text, tasks[(idx + 1) % len(tasks)][0], encoder) for idx, text in asked]
    general = [best(text, document, encoder) for document, _ in tasks for text in GENERAL]
    return np.array(right), np.array(wrong), np.array(general)


def best(text: str, document: Document, encoder: Encoder) -> float:
    """Return the score of the first passage of a document."""
    return search(text, document, top_k=1, model=encoder)[0].score


def best_scores(asked: Asked, encoder: Encoder) -> np.ndarray:
    """Return the scores of the first passages for some questions about each document."""
    draw = random.Random(SEED)
    return np.array(
        [
            best(query.text, document, encoder)
            for document, queries in asked
            for query in draw.sample(queries, min(QUESTIONS, len(queries)))
        ]
    )


def unanswered(data: Path, articles: Asked) -> Asked:
    """Return articles of SQuAD with the questions that they do not answer."""
    with lzma.open(data / "qa" / "squad.json.xz", "rt", encoding="utf-8") as file:
        records = {one["title"].replace("_", " "): one for one in json.load(file)["data"]}
    return [
        (
            document,
            [
                Query(question["question"], ())
                for paragraph in records[document.title]["paragraphs"]
                for question in paragraph["qas"]
                if not question["answers"]
            ],
        )
        for document, _ in articles
    ]


def below(scores: np.ndarray) -> list[float]:
    """Return how many scores are below each of the points, in percent."""
    return [round(100 * float((scores < point).mean()), 1) for point in POINTS]


def choose(sets: Sequence[Sequence[np.ndarray]]) -> float:
    """Return the highest score below which the share of wrong pairs is at least `WRONG`."""
    points = np.arange(0, 1, 0.005)
    below = np.array([[[(kind < x).mean() for kind in kinds] for x in points] for kinds in sets])
    right, wrong, general = below.mean(0).T
    wrong = (wrong + general) / 2
    return float(points[np.flatnonzero((wrong > 0) & (wrong >= WRONG * (right + wrong))).max()])


def shares(point: float, *kinds: np.ndarray) -> dict[str, Any]:
    """Return how many pairs of each kind are below the point, in percent."""
    names = ("right", "wrong", "general")
    return {
        name: round(100 * float((kind < point).mean()), 1)
        for name, kind in zip(names, kinds, strict=True)
    }


@table(PAGE, "likely", "likely.json")
def pairs_table(results: dict[str, Any]) -> str:
    """Format how many pairs are below the point."""
    header = ["set", "its own document", "another of the set", "general questions"]
    rows = [
        [name, *(f"{share:.1f} %" for share in its.values())]
        for name, its in results["below"].items()
    ]
    return report.table(header, rows)


@table(PAGE, "unanswered", "likely.json")
def unanswered_table(results: dict[str, Any]) -> str:
    """Format how many questions of SQuAD are below points near it."""
    points = np.array(results["setting"]["points"])
    shown = np.flatnonzero(abs(points - results["point"]) < 0.06)
    shares = [[kind, *(f"{its[i]:.0f} %" for i in shown)] for kind, its in results["SQuAD"].items()]
    return report.table(["below", *(f"{points[i]:.2f}" for i in shown)], shares)
