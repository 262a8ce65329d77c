"""Whether a document answers a question at all: the score below which nine of ten are wrong.

Each question of a development set is asked of its own document and of another of the same set, and
general questions, which none of them answers, are asked of all. Headings are questions if no other
document has them. A document's score is that of its best sentence, as `search` and `ask` return it.
The point is the highest score such that, of the pairs of a question and a document below it, nine
in ten do not belong together. For this, right and wrong pairs count the same, half of the wrong
ones are general questions, and all sets count the same. The point is `min_likely_score` in the
configuration of the model.

    python benchmarks/likely.py
"""

import argparse
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch

import report
from foveate import Document, Encoder
from foveate.tasks.relevance import relevance
from retrieval import Query, headings, without_headings
from structured_documents import meetings, papers, peps, proposals

WRONG = 0.9
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, default=report.DATA)
    parser.add_argument("--model", help="name or path of an encoder")
    parser.add_argument("--limit", type=int, default=12, help="documents of each set")
    parser.add_argument("--output", type=Path, default=report.RESULTS / "likely.json")
    options = parser.parse_args()
    encoder = Encoder.from_pretrained(options.model)
    data, limit = options.data, options.limit
    of_meetings = [
        (without_headings(example.document), [Query(q.text, q.sentence_ids) for q in its])
        for example in islice(meetings(data / "qmsum" / "val.jsonl.gz"), limit)
        if (its := [q for q in example.queries if q.sentence_ids])
    ]
    sets = {
        "meetings": of_meetings,
        "papers": headings(islice(papers(data / "scisummnet" / "dev.jsonl.gz"), limit)),
        "PEPs": headings(islice(peps(data / "peps" / "train.jsonl.gz", "dev"), limit)),
        "proposals": headings(islice(proposals(data / "proposals" / "dev.jsonl.xz"), limit)),
    }
    scores = {name: score(tasks, encoder) for name, tasks in sets.items()}
    point = choose([*scores.values()])
    results = {name: shares(point, *of_set) for name, of_set in scores.items()}
    for name, result in results.items():
        print(f"{name:10}", "  ".join(f"{kind} {share:.1f} %" for kind, share in result.items()))
    print(f"likely from {point:.3f}")
    setting = {"model": options.model, "limit": limit, "wrong": WRONG, "general": len(GENERAL)}
    report.save(options.output, {"setting": setting, "point": point, "below": results})


def score(
    tasks: Sequence[tuple[Document, Sequence[Query]]], encoder: Encoder
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the best scores of right pairs, wrong pairs, and general questions."""
    tasks = [(document, queries) for document, queries in tasks if queries]
    vectors = encoder.encode([document for document, _ in tasks])

    def best(idx: int, text: str) -> float:
        [scores] = relevance(text, [tasks[idx][0]], [vectors[idx]], encoder)
        return float(scores.max())

    asked = [(idx, q.text) for idx, (_, its) in enumerate(tasks) for q in its if q.specific]
    right = [best(idx, text) for idx, text in asked]
    wrong = [best((idx + 1) % len(tasks), text) for idx, text in asked]
    general = [best(idx, text) for idx in range(len(tasks)) for text in GENERAL]
    return np.array(right), np.array(wrong), np.array(general)


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


if __name__ == "__main__":
    with torch.inference_mode():
        main()
