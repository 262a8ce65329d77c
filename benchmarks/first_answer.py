"""How long the first answer takes about documents that were never read, and what that loses.

Questions of people are asked about all documents of a set at once, as in questions.py, of which
every part is used here: nothing is trained. An encoder that knows nothing is asked each question,
and then the same one again; another one has encoded everything before. A passage is right if it is
in the right document and a sentence of it holds the answer.

    python -m benchmarks first_answer
"""

import random
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from benchmarks import report
from benchmarks.asked_questions import read_questions
from benchmarks.questions import SETS, TOP_K, located, measure
from benchmarks.registry import measurement, table
from benchmarks.retrieval_measures import SEED
from foveate import Document, Encoder, search
from foveate.tasks.closely import share_read
from foveate.tasks.relevance import words_of


@measurement("first_answer.json")
def first_answer(data: Path = report.DATA, limit: int = 60) -> dict[str, Any]:
    """Ask some questions of each set."""
    Encoder.from_pretrained().encode_query("Is it warm?")
    results = {}
    for name in ("SQuAD", "COVID-QA"):
        examples = read_questions(data, SETS[name], "all")
        documents = [example.document for example in examples]
        every = [(i, query) for i, one in enumerate(examples) for query in one.queries]
        asked = random.Random(SEED).sample(every, min(limit, len(every)))
        start = perf_counter()
        for document in documents:
            words_of(document)
        of_words = perf_counter() - start
        whole = Encoder.from_pretrained()
        start = perf_counter()
        whole.encode(documents)
        of_all = perf_counter() - start
        rows = [_ask(documents, one.text, i, one.sentence_ids, whole) for i, one in asked]
        results[name] = {
            "documents": len(documents),
            "characters": sum(len(document.text) for document in documents),
            "questions": len(asked),
            "seconds": {
                "words": of_words,
                "first": median(row[0] for row in rows),
                "again": median(row[1] for row in rows),
                "all": of_all,
            },
            "read": median(row[2] for row in rows),
            "closely": _shares([row[3] for row in rows]),
            "thorough": _shares([row[4] for row in rows]),
        }
        print(name, results[name], flush=True)
    return results


def _ask(
    documents: Sequence[Document],
    query: str,
    document_idx: int,
    answers: Sequence[int],
    whole: Encoder,
) -> tuple[float, float, float, Sequence[float], Sequence[float]]:
    """Ask an encoder that has read nothing, again, and one that has read everything."""
    encoder = Encoder(whole.runner, whole.languages)
    _ = encoder.unrelated
    start = perf_counter()
    found = search(query, documents, top_k=TOP_K, model=encoder)
    first = perf_counter()
    search(query, documents, top_k=TOP_K, model=encoder)
    again = perf_counter()
    all_read = search(query, documents, top_k=TOP_K, model=whole, thorough=True)
    closely, thorough = (
        measure(located(hits, documents), document_idx, answers) for hits in (found, all_read)
    )
    return first - start, again - first, share_read(documents, encoder), closely, thorough


def _shares(rows: Sequence[Sequence[float]]) -> list[float]:
    """Return hit@1 and hit@5 in percent."""
    return [round(100 * sum(row[i] for row in rows) / len(rows), 1) for i in range(2)]


@table("numbers/retrieval.md", "first answer", "first_answer.json")
def first_answer_table(results: dict[str, Any]) -> str:
    """Compare what is read closely with what is read as a whole."""
    header = ["", "first answer", "again", "reading all", "read", "hit@1 / hit@5", "all read"]
    rows = [
        [
            f"{name}: {one['documents']}, {one['characters'] // 4000} thousand tokens",
            f"{one['seconds']['words'] + one['seconds']['first']:.1f} s",
            f"{one['seconds']['again']:.2f} s",
            f"{one['seconds']['all']:.0f} s",
            f"{100 * one['read']:.0f} %",
            *(
                " / ".join(f"{share:.1f}" for share in one[kind])
                for kind in ("closely", "thorough")
            ),
        ]
        for name, one in results.items()
    ]
    return report.table(header, rows)
