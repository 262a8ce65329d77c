"""The corpus that the encoder of foveate is trained on, as files that `foveate.data.Corpus` reads.

    python -m benchmarks training_corpus

writes papers.jsonl, peps.jsonl, proposals.jsonl, meetings.jsonl, squad.jsonl, covid.jsonl and
policies.jsonl to build/corpus, from the training parts in ../shared/data. Each line has a document
with its sentences, references and queries, the language, the source and the license. Only prose,
items of lists and captions are written, not tables, code, formulas, footnotes and bibliographies. A
paper whose text does not begin with its abstract gets it as its first section. Meetings keep their
speakers; meetings_flat.jsonl has each in one section, without QMSum's topics. Topics and the first
sentences of answers are queries, too.

People asked the questions about meetings, articles, papers on the coronavirus (covid.jsonl) and
policies; a language model made those about papers, proposals and manuals: made_questions.py chooses
the clear ones, and the default model helps to name the sentences that answer. An epoch reads each
document of a corpus once. So that it reads more of what people ask, the documents of `COPIES` are
written several times.

    python -m benchmarks training_corpus --manuals packages

writes manuals.jsonl as well, from the packages of Debian that manuals.py lists. It downloads those
that are not yet in the folder `packages`, about 1 GB. manuals.md says how much is from which
package, and its license. The corpus of the encoder was made with the versions of Debian 12. The
questions about them, manual_questions.jsonl.xz, were made with make_questions.py.
"""

import json
from collections.abc import Iterable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

from benchmarks import report
from benchmarks.asked_questions import LICENSES, read_questions
from benchmarks.made_questions import read_made, with_made_questions
from benchmarks.manuals import Package, read_packages
from benchmarks.registry import measurement
from benchmarks.structured_documents import (
    KINDS,
    count_words,
    meetings,
    papers,
    read_records,
    read_set,
    section_records,
)
from foveate import Document
from foveate.data import Example
from foveate.inference import Encoder

MANUAL_QUESTIONS = Path(__file__).with_name("manual_questions.jsonl.xz")

COPIES = {
    "papers": 4,
    "peps": 4,
    "proposals": 3,
    "meetings": 3,
    "meetings_flat": 3,
    "squad": 40,
    "covid": 14,
    "policies": 30,
}
"""How many times the documents of a file are written, by default once.

Of all words, 22 % are then from papers, 22 % from proposals, 9 % from Python's, 15 % from meetings,
8 % from what else people asked about, and 23 % from manuals.
"""


@measurement(None)
def training_corpus(
    data: Path = report.DATA,
    output: Path = report.ROOT / "build" / "corpus",
    manuals: Path | None = None,
) -> None:
    """Write all files.

    Options:
        output: folder to write them to
        manuals: where the packages of Debian are or go
    """
    made = read_made([data / "qa" / "made.jsonl.xz", MANUAL_QUESTIONS])
    encode = Encoder.from_pretrained().encode_texts
    for name, records in shared_documents(data).items():
        if name in made and not name.startswith("meetings"):  # which people asked about
            records = with_made_questions(records, made[name], encode)
        write(output / f"{name}.jsonl", records, COPIES.get(name, 1))
    if manuals:
        packages = read_packages(manuals.resolve())
        documents = [document for package in packages for document in package.documents]
        documents = with_made_questions(documents, made["manuals"], encode)
        write(output / "manuals.jsonl", documents)
        (output / "manuals.md").write_text(table(packages))


def shared_documents(data: Path) -> dict[str, Iterator[dict[str, Any]]]:
    """Return the documents of each kind in the training parts."""
    return {
        "papers": papers_with_abstracts(data / "scisummnet" / "train.jsonl.gz"),
        "meetings": meeting_records(data),
        "meetings_flat": map(flat, meeting_records(data)),
        "peps": (
            record(pep, "Python Enhancement Proposals", "public domain or CC0-1.0")
            for pep in read_set(data, "PEPs", "train")
        ),
        "proposals": (
            record(proposal, *proposal.labels) for proposal in read_set(data, "proposals", "train")
        ),
        **{name: asked_records(data, name) for name in LICENSES},
    }


def asked_records(data: Path, name: str) -> Iterator[dict[str, Any]]:
    """Return documents with the questions that people asked about them."""
    return (record(one, *LICENSES[name]) for one in read_questions(data, name, "train"))


def papers_with_abstracts(path: Path) -> Iterator[dict[str, Any]]:
    """Return papers whose first section is the abstract, unless they begin with it already."""
    for paper, original in zip(papers(path), read_records(path), strict=True):
        one, abstract = record(paper, "ScisummNet", "CC BY 4.0"), original["abstract"]
        if not begins_with(one["sections"], abstract):
            one["sections"].insert(0, {"title": "Abstract", "sentences": abstract, "sections": []})
        yield one


def begins_with(sections: list[dict[str, Any]], abstract: list[str]) -> bool:
    """Return whether the first two sections have the first 60 characters of an abstract."""
    texts = (" ".join(section["sentences"]) for section in sections[:2])
    return not abstract or any(abstract[0][:60] in text for text in texts)


def meeting_records(data: Path) -> Iterator[dict[str, Any]]:
    """Return meetings with their topics as sections."""
    for meeting in meetings(data / "qmsum" / "train.jsonl.gz", more_queries=True):
        document = meeting.document.to_dict()
        yield document | record(meeting, "QMSum", "MIT") | {"sections": document["sections"]}


def flat(meeting: dict[str, Any]) -> dict[str, Any]:
    """Put all paragraphs of a meeting into one section."""
    paragraphs = [one for section in meeting["sections"] for one in section["paragraphs"]]
    return {**meeting, "sections": [{"title": "", "paragraphs": paragraphs, "sections": []}]}


def record(example: Example, source: str, license: str) -> dict[str, Any]:
    """Return an example as an object in JSON, with its document as `section_records` has it."""
    kept = kept_sentences(example.document)
    queries = [
        {"text": query.text, "sentence_ids": [kept[i] for i in query.sentence_ids if i in kept]}
        for query in example.queries
    ]
    return {
        "id": example.id,
        "title": example.document.title,
        "sections": section_records(example.document.sections),
        "references": list(example.references),
        "queries": [query for query in queries if query["sentence_ids"]],
        "language": "en",
        "source": source,
        "license": license,
    }


def kept_sentences(document: Document) -> dict[int, int]:
    """Return, for the index of each sentence that is kept, its index among those."""
    kinds = (paragraph.kind for paragraph in document.paragraphs() for _ in paragraph.sentences)
    numbers = count()
    return {index: next(numbers) for index, kind in enumerate(kinds) if kind in KINDS}


def write(path: Path, records: Iterable[dict[str, Any]], copies: int = 1) -> None:
    """Write documents that have sections, one a line, each several times, and say how many."""
    path.parent.mkdir(parents=True, exist_ok=True)
    num_documents = num_words = num_queries = 0
    with path.open("w", encoding="utf-8") as file:
        for one in records:
            if one["sections"]:
                file.write((json.dumps(one, ensure_ascii=False) + "\n") * copies)
                num_documents += 1
                num_words += count_words(one["sections"])
                num_queries += len(one["queries"])
    print(
        f"{path.name}: {num_documents:,} documents, {num_words:,} words, {num_queries:,} queries, "
        f"written {copies} times",
        flush=True,
    )


def table(packages: Iterable[Package]) -> str:
    """Return a table of packages in Markdown."""
    rows = [
        f"| {package.name} | {package.version} | {package.license} | {len(package.documents)} "
        f"| {package.num_words:,} |"
        for package in packages
    ]
    return "\n".join(
        ("| Package | Version | License | Documents | Words |", "|---|---|---|--:|--:|", *rows, "")
    )
