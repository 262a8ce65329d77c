"""SciRepEval (Singh et al., 2023), and FullTextSciRepEval, whose papers have their full text."""

import math
from collections.abc import Collection, Iterator
from os import PathLike
from typing import NamedTuple

from foveate.data.example import Example, Ranking
from foveate.data.records import LocatedRecords, Record, parse_records, read_records
from foveate.documents import Document

SHARED_PAPERS = {
    **dict.fromkeys(
        ("scidocs_cite", "scidocs_cocite", "scidocs_view", "scidocs_read"), "scidocs_view_cite_read"
    ),
    **dict.fromkeys(("scidocs_mag", "scidocs_mesh"), "scidocs_mag_mesh"),
    **dict.fromkeys(("peer_review_score", "hIndex"), "peer_review_score_hIndex"),
}
"""The folder, or the configuration on the hub, that holds the papers of several tasks."""


class Label(NamedTuple):
    """The label of a paper, in classification and regression.

    Attributes:
        paper_id: The paper's `doc_id`.
        names: The classes that it belongs to.
        number: The label as a number; None if it is not one, or if there are several.
    """

    paper_id: str
    names: tuple[str, ...]
    number: float | None


def read_rankings(
    papers: str | PathLike[str], judgements: str | PathLike[str]
) -> Iterator[Ranking]:
    """Read a proximity or search task.

    Args:
        papers: See `parse_papers`.
        judgements: See `parse_judgements`.

    Raises:
        ValueError: A record has another form, or a judged paper is not among `papers`.
    """
    yield from parse_rankings(read_records(papers), read_records(judgements))


def read_labelled_papers(
    papers: str | PathLike[str], labels: str | PathLike[str]
) -> Iterator[Example]:
    """Read a classification or regression task.

    Args:
        papers: See `parse_papers`.
        labels: See `parse_labels`. A number becomes both the target of a regression and a label.

    Raises:
        ValueError: A record has another form, or a labelled paper is not among `papers`.
    """
    yield from parse_labelled_papers(read_records(papers), read_records(labels))


def parse_rankings(papers: LocatedRecords, judgements: LocatedRecords) -> Iterator[Ranking]:
    """Parse what `read_rankings` reads from files."""
    documents = dict(parse_papers(papers))
    for query, relevance in parse_judgements(judgements).items():
        candidates = tuple(_find_paper(documents, candidate) for candidate in relevance)
        yield Ranking(query, _find_paper(documents, query), candidates, tuple(relevance.values()))


def parse_labelled_papers(papers: LocatedRecords, labels: LocatedRecords) -> Iterator[Example]:
    """Parse what `read_labelled_papers` reads from files."""
    documents = dict(parse_papers(papers))
    for label in parse_labels(labels):
        yield Example(
            id=label.paper_id,
            document=_find_paper(documents, label.paper_id),
            labels=label.names,
            target=label.number,
        )


def parse_papers(
    records: LocatedRecords, only: Collection[str] | None = None
) -> Iterator[tuple[str, Document]]:
    """Parse papers, and queries of a few words: each once, preceded by its identifier.

    Args:
        records: Papers with `doc_id`, `title`, `abstract` and optionally `full_text`, a list of
            sections with `title` and `sentences`; or queries with a list of such papers, their
            `candidates`, and as `query` either a paper, or a text next to its `doc_id`.
        only: The identifiers of the papers and queries to parse, None for all.

    Raises:
        ValueError: A record has another form.

    Warns:
        UserWarning: A paper has no text; it is skipped.
    """
    seen: set[str] = set()

    def parse(place: str, record: Record) -> Iterator[tuple[str, Document]]:
        name, query = str(record["doc_id"]), record.get("query")
        if name not in seen and (only is None or name in only):
            seen.add(name)
            yield name, _parse_paper(record) if query is None else Document.from_text(query)

    return parse_records(parse, parse_records(_papers_of_record, records))


def parse_judgements(records: LocatedRecords) -> dict[str, dict[str, float]]:
    """Parse the relevance of each query's candidates.

    Args:
        records: Records with `query_id`, `cand_id` and `score`, as in `test_qrel.jsonl`.

    Returns:
        For each query, the scores of its candidates; 0 means irrelevant.

    Raises:
        ValueError: A record has another form.
    """
    relevance: dict[str, dict[str, float]] = {}
    for query, candidate, score in parse_records(_judgement_record, records):
        relevance.setdefault(query, {})[candidate] = score
    return relevance


def parse_labels(records: LocatedRecords) -> Iterator[Label]:
    """Parse the labels of papers.

    Args:
        records: Records with `paper_id` and `label`: a number, a name, a list of names, or a list
            of zeros and ones, one for each class, which is then named by its index.

    Raises:
        ValueError: A record has another form.
    """
    return parse_records(_label_record, records)


def _parse_paper(record: Record) -> Document:
    """Make a document of title, abstract and, if there is one, full text."""
    sections = [("Abstract", record.get("abstract") or "")]
    sections += [(part["title"] or "", part["sentences"]) for part in record.get("full_text") or []]
    title = record.get("title") or ""
    if not any(content for _, content in sections):
        sections = [("", title)]  # the title is all that is known of the paper
    return Document.from_sections(title, sections)


def _papers_of_record(place: str, record: Record) -> Iterator[tuple[str, Record]]:
    """Return the query and the candidates of a record by themselves, or the one paper it is."""
    if "query" not in record:
        yield place, record
        return
    yield place, record if isinstance(record["query"], str) else record["query"]
    for candidate in record["candidates"]:
        yield place, candidate


def _judgement_record(place: str, record: Record) -> Iterator[tuple[str, str, float]]:
    yield str(record["query_id"]), str(record["cand_id"]), float(record["score"])


def _label_record(place: str, record: Record) -> Iterator[Label]:
    paper_id, label = str(record["paper_id"]), record["label"]
    if label is None or label == "":
        raise KeyError("label")
    if not isinstance(label, list):
        yield Label(paper_id, (str(label),), _parse_number(label))
    elif all(isinstance(entry, int) and entry in (0, 1) for entry in label):
        yield Label(paper_id, tuple(str(i) for i, is_true in enumerate(label) if is_true), None)
    else:
        yield Label(paper_id, tuple(map(str, label)), None)


def _find_paper(documents: dict[str, Document], paper_id: str) -> Document:
    if paper_id not in documents:
        raise ValueError(f"the paper {paper_id} is judged, but is not among the papers: add it")
    return documents[paper_id]


def _parse_number(value: object) -> float | None:
    try:
        number = float(str(value))
    except ValueError:
        return None
    return number if math.isfinite(number) else None
