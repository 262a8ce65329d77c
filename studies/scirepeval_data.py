"""SciRepEval (Singh et al., 2023), and FullTextSciRepEval, whose papers have their full text."""

import math
from collections.abc import Collection, Iterator
from typing import NamedTuple

from foveate.data.records import LocatedRecords, Record, parse_records
from foveate.documents import Document

FULL_TEXT_PAPERS = "howey/super_scirep"
"""FullTextSciRepEval, on which HDT was evaluated."""

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


def _parse_number(value: object) -> float | None:
    try:
        number = float(str(value))
    except ValueError:
        return None
    return number if math.isfinite(number) else None
