"""SciRepEval (Singh et al., 2023), and FullTextSciRepEval, whose papers have their full text."""

from collections.abc import Iterator
from os import PathLike

from foveate.data.example import Example, Ranking
from foveate.data.records import LocatedRecords, Record, parse_records, read_records
from foveate.documents import Document


def read_rankings(
    papers: str | PathLike[str], judgements: str | PathLike[str]
) -> Iterator[Ranking]:
    """Read a task of proximity or search.

    Args:
        papers: JSON Lines of queries (a paper, or words) with their candidates, or of papers.
        judgements: JSON Lines with `query_id`, `cand_id` and `score`, such as `test_qrel.jsonl`.

    Raises:
        ValueError: A record has another form, or a judged paper is not among `papers`.
    """
    yield from parse_rankings(read_records(papers), read_records(judgements))


def read_labelled_papers(
    papers: str | PathLike[str], labels: str | PathLike[str]
) -> Iterator[Example]:
    """Read a task of classification or regression.

    Args:
        papers: JSON Lines with `doc_id`, `title`, `abstract` and optionally `full_text`.
        labels: CSV or JSON Lines with `paper_id` and `label`. A number becomes both the target of
            a regression and a label; a list becomes several labels.

    Raises:
        ValueError: A record has another form, or a labelled paper is not among `papers`.
    """
    yield from parse_labelled_papers(read_records(papers), read_records(labels))


def parse_rankings(papers: LocatedRecords, judgements: LocatedRecords) -> Iterator[Ranking]:
    """Parse what `read_rankings` reads from files."""
    documents = dict(parse_records(_query_record, papers))
    relevance: dict[str, dict[str, float]] = {}
    for query, candidate, score in parse_records(_judgement_record, judgements):
        relevance.setdefault(query, {})[candidate] = score
    for query, scores in relevance.items():
        candidates = tuple(_find_paper(documents, candidate) for candidate in scores)
        yield Ranking(query, _find_paper(documents, query), candidates, tuple(scores.values()))


def parse_labelled_papers(papers: LocatedRecords, labels: LocatedRecords) -> Iterator[Example]:
    """Parse what `read_labelled_papers` reads from files."""
    documents = dict(parse_records(_paper_record, papers))

    def label_record(place: str, record: Record) -> Iterator[Example]:
        paper_id, label = str(record["paper_id"]), record["label"]
        several = isinstance(label, list)
        yield Example(
            id=paper_id,
            document=_find_paper(documents, paper_id),
            labels=tuple(map(str, label if several else [label])),
            target=None if several else _parse_number(label),
        )

    return parse_records(label_record, labels)


def _parse_paper(record: Record) -> Document:
    """Make a document of title, abstract and, if there is one, full text."""
    sections = [("Abstract", record.get("abstract") or "")]
    sections += [(part["title"] or "", part["sentences"]) for part in record.get("full_text") or []]
    title = record.get("title") or ""
    if not any(content for _, content in sections):
        sections = [("", title)]  # the title is all that is known of the paper
    return Document.from_sections(title, sections)


def _query_record(place: str, record: Record) -> Iterator[tuple[str, Document]]:
    if "query" not in record:
        yield str(record["doc_id"]), _parse_paper(record)
        return
    query = record["query"]
    if isinstance(query, str):
        yield str(record["doc_id"]), Document.from_text(query)
    else:
        yield str(query["doc_id"]), _parse_paper(query)
    for candidate in record["candidates"]:
        yield str(candidate["doc_id"]), _parse_paper(candidate)


def _paper_record(place: str, record: Record) -> Iterator[tuple[str, Document]]:
    yield str(record["doc_id"]), _parse_paper(record)


def _judgement_record(place: str, record: Record) -> Iterator[tuple[str, str, float]]:
    yield str(record["query_id"]), str(record["cand_id"]), float(record["score"])


def _find_paper(documents: dict[str, Document], paper_id: str) -> Document:
    if paper_id not in documents:
        raise ValueError(f"the paper {paper_id} is judged, but is not among the papers: add it")
    return documents[paper_id]


def _parse_number(value: object) -> float | None:
    try:
        return float(str(value))
    except ValueError:
        return None
