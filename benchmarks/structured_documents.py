"""Real documents with sections, abstracts or summaries, and queries, from `report.DATA`.

README.md describes the files. Each reader yields examples, and `without_abstract` gives the
document of an example without the sections that hold its abstract.
"""

import gzip
import json
import lzma
import re
import tarfile
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from foveate import Document
from foveate.data import Example, Query, abstract_sections
from foveate.documents import DocumentError, Section

DEV_STEP = 8  # every eighth Python Enhancement Proposal is for development
KINDS = ("prose", "item", "caption")  # of paragraphs that corpora hold
SUMMARY_TITLES = ("abstract", "author summary")  # of articles


@dataclass(frozen=True, slots=True, kw_only=True)
class ExampleWithAbstract(Example):
    """A document of which it is known which sections hold its abstract.

    Attributes:
        abstract: The indices of these sections in the order of `Document.walk`.
    """

    abstract: frozenset[int]


def read_records(path: Path) -> Iterator[dict[str, Any]]:
    """Read compressed JSON Lines."""
    with (lzma if path.suffix == ".xz" else gzip).open(path, "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def read_set(data: Path, name: str, part: str) -> Iterator[Example]:
    """Read one of the sets "meetings", "papers", "PEPs", "proposals" and "articles".

    Args:
        data: The folder of texts that README.md describes.
        name: Its name.
        part: "train", "dev" or, of meetings, "test"; "val" of meetings is "dev".
    """
    if name == "meetings":
        return meetings(data / "qmsum" / f"{'val' if part == 'dev' else part}.jsonl.gz")
    if name == "papers":
        return papers(data / "scisummnet" / f"{part}.jsonl.gz")
    if name == "PEPs":
        return peps(data / "peps" / "train.jsonl.gz", part)
    if name == "proposals":
        return proposals(data / "proposals" / f"{part}.jsonl.xz")
    return plos(data / "plos" / f"{part}.tar.xz")


def papers(path: Path) -> Iterator[Example]:
    """Read papers of ScisummNet; the reference is the human summary.

    An abstract is in the document only if the paper repeats it in a section.
    """
    for record in read_records(path):
        document = Document.from_sections(record["title"], record["sections"], language="en")
        repeated = {
            index
            for index, section in enumerate(document.sections)
            if repeats(list(_sentences(section)), record["abstract"])
        }
        yield ExampleWithAbstract(
            id=record["id"],
            document=document,
            references=(" ".join(record["summary"]),),
            abstract=abstract_sections(document, " ".join(record["abstract"])) | repeated,
        )


def papers_with_abstract(path: Path) -> Iterator[tuple[Document, str]]:
    """Read papers of ScisummNet with the abstract as the first section, and the human summary."""
    for record in read_records(path):
        document = Document.from_sections(
            record["title"],
            [("Abstract", record["abstract"]), *sections_beside_abstract(record)],
            language="en",
        )
        yield document, " ".join(record["summary"])


def sections_beside_abstract(paper: dict[str, Any]) -> list[tuple[str, list[str]]]:
    """Return heading and sentences of the sections of a paper that do not repeat its abstract."""
    return [
        (section["heading"], section["sentences"])
        for section in paper["sections"]
        if section["sentences"] and not repeats(section["sentences"], paper["abstract"])
    ]


def repeats(section: list[str], abstract: list[str]) -> bool:
    """Return whether a section contains most of the abstract, as in articles that repeat it."""
    of_abstract = _trigrams(abstract)
    return len(of_abstract & _trigrams(section)) > 0.8 * len(of_abstract) > 0


def proposals(path: Path) -> Iterator[Example]:
    """Read technical proposals; the reference is the abstract, if there is one.

    The labels are the project that the proposal is from, and its license.
    """
    for record in read_records(path):
        document = Document.from_text(
            record["text"], format=record["format"], title=record["title"], language="en"
        )
        abstract = record["abstract"]
        located: frozenset[int] = frozenset()
        if abstract:
            start, end = record["abstract_at"]
            located = _sections_within(document, start, end) | abstract_sections(document, abstract)
        yield ExampleWithAbstract(
            id=record["id"],
            document=document,
            references=(abstract,) if abstract else (),
            labels=(record["source"], record["license"]),
            abstract=located,
        )


def peps(path: Path, part: str) -> Iterator[Example]:
    """Read Python Enhancement Proposals; the reference is the abstract, if there is one.

    Args:
        path: The file.
        part: "dev" is every eighth proposal by its id, "train" the others.
    """
    records = sorted(read_records(path), key=lambda record: record["id"])
    for index, record in enumerate(records):
        if (part == "dev") != (index % DEV_STEP == 0):
            continue
        try:
            document = Document.from_text(record["text"], format=record["format"], language="en")
        except DocumentError:
            continue  # one was rejected before it was written
        yield _with_titled_abstract(record["id"], document, ("abstract",))


def meetings(path: Path, *, more_queries: bool = False) -> Iterator[Example]:
    """Read meetings of QMSum; the reference is the summary of the whole meeting.

    The queries are the specific questions, the label is the domain: product, academic or committee.
    The sections' titles are the topics.

    Args:
        path: The file.
        more_queries: Add topics as queries, and the first sentences of the answers to questions.
    """
    return (_meeting(record, more_queries=more_queries) for record in read_records(path))


def answers(path: Path) -> Iterator[tuple[str, str, str]]:
    """Read the specific questions of QMSum: the question, what was said about it, the answer."""
    for record in read_records(path):
        meeting = _meeting(record)
        sentences = [sentence.text for sentence in meeting.document.sentences()]
        for query, question in zip(meeting.queries, _questions(record, "specific"), strict=True):
            if query.sentence_ids:
                said = " ".join(sentences[i] for i in query.sentence_ids)
                yield query.text, said, question["answer"]


def overviews(path: Path) -> Iterator[tuple[Document, list[tuple[str, str]]]]:
    """Read the general questions of QMSum: the meeting, and each question with its answer."""
    for record in read_records(path):
        general = _questions(record, "general")
        yield _meeting(record).document, [(one["query"], one["answer"]) for one in general]


def plos(path: Path) -> Iterator[Example]:
    """Read articles in JATS from an archive; the reference is the abstract."""
    with tarfile.open(path) as archive:
        for member in sorted(archive.getmembers(), key=lambda member: member.name):
            content = archive.extractfile(member)
            if content is not None:
                document = Document.from_bytes(content.read(), format="jats", language="en")
                yield _with_titled_abstract(Path(member.name).stem, document, SUMMARY_TITLES)


def without_abstract(example: Example) -> Document:
    """Leave the sections that hold the abstract out of the example's document.

    The document of an example without references is returned unchanged.

    Raises:
        DocumentError: The document has no other section.
    """
    if isinstance(example, ExampleWithAbstract):
        return without_sections(example.document, example.abstract)
    found = (abstract_sections(example.document, text) for text in example.references)
    return without_sections(example.document, frozenset().union(*found))


def without_sections(document: Document, indices: Collection[int]) -> Document:
    """Remove the sentences directly in some sections, and sections that are then empty.

    Subsections stay unless they are removed as well. `Document.text` remains as it is, so that
    the offsets of the other sentences still hold.

    Args:
        document: A document.
        indices: The indices of the sections in the order of `Document.walk`.

    Raises:
        DocumentError: No sentence would be left.
    """
    numbers = iter(range(sum(1 for _ in document.walk())))

    def keep(sections: Iterable[Section]) -> Iterator[Section]:
        for section in sections:
            paragraphs = () if next(numbers) in indices else section.paragraphs
            subsections = tuple(keep(section.sections))
            if paragraphs or subsections:
                yield Section(section.title, paragraphs, subsections)

    return replace(document, sections=tuple(keep(document.sections)))


def without_abstracts(examples: Iterable[Example]) -> Iterator[tuple[Document, Example]]:
    """Yield documents without their abstracts, with their examples, unless nothing is left."""
    for example in examples:
        with suppress(DocumentError):
            yield without_abstract(example), example


def section_records(sections: Iterable[Section]) -> list[dict[str, Any]]:
    """Return sections as a corpus holds them in JSON.

    Only paragraphs of `KINDS` are kept, and only sections that have some.
    """
    records = []
    for section in sections:
        sentences = [
            sentence.text
            for paragraph in section.paragraphs
            if paragraph.kind in KINDS
            for sentence in paragraph.sentences
        ]
        below = section_records(section.sections)
        if sentences or below:
            records.append({"title": section.title, "sentences": sentences, "sections": below})
    return records


def count_words(records: Iterable[dict[str, Any]]) -> int:
    """Count the words of sections as `section_records` or `Document.to_dict` returns them."""
    return sum(
        sum(len(sentence.split()) for sentence in _sentences_of(record))
        + count_words(record["sections"])
        for record in records
    )


def _sentences_of(record: dict[str, Any]) -> list[str]:
    if "sentences" in record:
        return list(record["sentences"])
    return [one["text"] for part in record["paragraphs"] for one in part["sentences"]]


def _sections_within(document: Document, start: int, end: int) -> frozenset[int]:
    """Return the sections whose own sentences are all in a stretch of the text."""
    return frozenset(
        index
        for index, (_, section) in enumerate(document.walk())
        if section.paragraphs
        and start <= section.paragraphs[0].sentences[0].start
        and section.paragraphs[-1].sentences[-1].end <= end
    )


def _with_titled_abstract(id: str, document: Document, titles: tuple[str, ...]) -> Example:
    """Return a document whose abstracts are outermost sections with the given titles.

    The text of the first is the reference.
    """
    walked = list(document.walk())
    abstract = frozenset(i for i, (path, _) in enumerate(walked) if path[0].lower() in titles)
    first = next((s for s in document.sections if s.title.lower() == titles[0]), None)
    return ExampleWithAbstract(
        id=id,
        document=document,
        references=() if first is None else (" ".join(_sentences(first)),),
        abstract=abstract,
    )


def _sentences(section: Section) -> Iterator[str]:
    for paragraph in section.paragraphs:
        yield from (sentence.text for sentence in paragraph.sentences)
    for subsection in section.sections:
        yield from _sentences(subsection)


def _trigrams(sentences: list[str]) -> set[tuple[str, ...]]:
    words = re.findall(r"\w+", " ".join(sentences).lower())
    return set(zip(words, words[1:], words[2:], strict=False))


def _questions(record: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [query for query in record["queries"] if query["kind"] == kind]


def _meeting(record: dict[str, Any], *, more_queries: bool = False) -> Example:
    """Return a meeting and its specific questions, whose spans are in turns, with sentences."""
    # The document's reader leaves out turns that say nothing: the place tells a sentence's turn.
    text = json.dumps({"topics": record["topics"], "turns": record["turns"]})
    document = Document.from_text(text, format="json", language="en")
    turns = [int(span.place.removeprefix("turn ")) - 1 for span in document.spans()]
    general, specific = (_questions(record, kind) for kind in ("general", "specific"))
    queries = [_query(query["query"], query["spans"], turns) for query in specific]
    if more_queries:
        queries += [
            _query(query["answer"].split(". ")[0], query["spans"], turns) for query in specific
        ]
        queries += [
            _query(topic["topic"], topic["relevant_text_span"], turns) for topic in record["topics"]
        ]
    return Example(
        id=record["id"],
        document=document,
        references=tuple(query["answer"] for query in general[:1]),
        labels=(record["domain"],),
        queries=tuple(queries),
    )


def _query(text: str, spans: list[list[str]], turns: list[int]) -> Query:
    """Return a query with the sentences whose turns are in one of its spans, ends included."""
    bounds = [(int(first), int(last)) for first, last in spans]
    return Query(
        text,
        tuple(
            index
            for index, turn in enumerate(turns)
            if any(first <= turn <= last for first, last in bounds)
        ),
    )
