"""The corpus that the encoder of foveate is trained on, as files that `foveate.data.Corpus` reads.

    python benchmarks/training_corpus.py

writes papers.jsonl, peps.jsonl, proposals.jsonl and meetings.jsonl to build/corpus, from the
training parts in ../shared/data. Each line has a document with its sentences, references and
queries, the language, the source and the license. Only prose, items of lists and captions are
written, not tables, code, formulas, footnotes and bibliographies.
"""

import argparse
import json
from collections.abc import Iterable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

from foveate import Document
from foveate.data import Example
from foveate.documents import Section
from structured_documents import meetings, papers, peps, proposals

HERE = Path(__file__).parent
KINDS = ("prose", "item", "caption")  # of paragraphs that are kept


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, default=HERE.parents[1] / "shared" / "data")
    parser.add_argument("--output", type=Path, default=HERE.parent / "build" / "corpus")
    options = parser.parse_args()
    for name, records in shared_documents(options.data).items():
        write(options.output / f"{name}.jsonl", records)


def shared_documents(data: Path) -> dict[str, Iterator[dict[str, Any]]]:
    """Return the documents of each kind in the training parts."""
    return {
        "papers": (
            record(paper, "ScisummNet", "CC BY 4.0")
            for paper in papers(data / "scisummnet" / "train.jsonl.gz")
        ),
        "meetings": (
            record(meeting, "QMSum", "MIT")
            for meeting in meetings(data / "qmsum" / "train.jsonl.gz")
        ),
        "peps": (
            record(pep, "Python Enhancement Proposals", "public domain or CC0-1.0")
            for pep in peps(data / "peps" / "train.jsonl.gz", "train")
        ),
        "proposals": (
            record(proposal, *proposal.labels)
            for proposal in proposals(data / "proposals" / "train.jsonl.xz")
        ),
    }


def record(example: Example, source: str, license: str) -> dict[str, Any]:
    """Return an example as an object in JSON, with its document as `sections` gives it."""
    kept = kept_sentences(example.document)
    queries = [
        {"text": query.text, "sentence_ids": [kept[i] for i in query.sentence_ids if i in kept]}
        for query in example.queries
    ]
    return {
        "id": example.id,
        "title": example.document.title,
        "sections": sections(example.document.sections),
        "references": list(example.references),
        "queries": [query for query in queries if query["sentence_ids"]],
        "language": "en",
        "source": source,
        "license": license,
    }


def sections(parts: Iterable[Section]) -> list[dict[str, Any]]:
    """Return sections with the sentences that are kept, without sections that have none."""
    written = []
    for section in parts:
        sentences = [
            sentence.text
            for paragraph in section.paragraphs
            if paragraph.kind in KINDS
            for sentence in paragraph.sentences
        ]
        below = sections(section.sections)
        if sentences or below:
            written.append({"title": section.title, "sentences": sentences, "sections": below})
    return written


def kept_sentences(document: Document) -> dict[int, int]:
    """Return, for the index of each sentence that is kept, its index among those."""
    kinds = (paragraph.kind for paragraph in document.paragraphs() for _ in paragraph.sentences)
    numbers = count()
    return {index: next(numbers) for index, kind in enumerate(kinds) if kind in KINDS}


def write(path: Path, records: Iterable[dict[str, Any]]) -> None:
    """Write documents that have sections, one a line, and say how many."""
    path.parent.mkdir(parents=True, exist_ok=True)
    num_documents = num_words = 0
    with path.open("w", encoding="utf-8") as file:
        for one in records:
            if one["sections"]:
                file.write(json.dumps(one, ensure_ascii=False) + "\n")
                num_documents += 1
                num_words += words(one["sections"])
    print(f"{path.name}: {num_documents:,} documents, {num_words:,} words", flush=True)


def words(parts: Iterable[dict[str, Any]]) -> int:
    """Count the words in sections."""
    return sum(
        sum(len(sentence.split()) for sentence in part["sentences"]) + words(part["sections"])
        for part in parts
    )


if __name__ == "__main__":
    main()
