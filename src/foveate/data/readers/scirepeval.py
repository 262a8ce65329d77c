"""SciRepEval (Singh et al., 2023), and FullTextSciRepEval, whose papers have their full text."""

from collections.abc import Iterator
from os import PathLike

from foveate.data.example import Example, Ranking
from foveate.documents import Document

from .rows import Places, Row, each, rows


def rankings(papers: str | PathLike[str], judgements: str | PathLike[str]) -> Iterator[Ranking]:
    """Read a task of proximity or search.

    Args:
        papers: JSON Lines of queries (a paper, or words) with their candidates, or of papers.
        judgements: JSON Lines with `query_id`, `cand_id` and `score`, as `test_qrel.jsonl`.

    Raises:
        ValueError: a row has another form, or a judged paper is not among those of `papers`.
    """
    yield from rank(rows(papers), rows(judgements))


def labelled(papers: str | PathLike[str], labels: str | PathLike[str]) -> Iterator[Example]:
    """Read a task of classification or regression.

    Args:
        papers: JSON Lines with `doc_id`, `title`, `abstract` and perhaps `full_text`.
        labels: CSV or JSON Lines with `paper_id` and `label`: a number is taken as the target of a
            regression, and as a label too; a list as labels.

    Raises:
        ValueError: as `rankings`.
    """
    yield from label(rows(papers), rows(labels))


def rank(papers: Places, judgements: Places) -> Iterator[Ranking]:
    """Do what `rankings` does with rows from anywhere."""
    known = dict(each(_queried, papers))
    scores: dict[str, dict[str, float]] = {}
    for query, candidate, score in each(_judgement, judgements):
        scores.setdefault(query, {})[candidate] = score
    for query, own in scores.items():
        candidates = tuple(_get(known, candidate) for candidate in own)
        yield Ranking(query, _get(known, query), candidates, tuple(own.values()))


def label(papers: Places, labels: Places) -> Iterator[Example]:
    """Do what `labelled` does with rows from anywhere."""
    known = dict(each(_identified, papers))

    def example(place: str, row: Row) -> Iterator[Example]:
        identity, given = str(row["paper_id"]), row["label"]
        several = given if isinstance(given, list) else [given]
        target = None if isinstance(given, list) else _number(given)
        names = tuple(str(one) for one in several)
        yield Example(identity, _get(known, identity), labels=names, target=target)

    return each(example, labels)


def paper(row: Row) -> Document:
    """Make a document of title, abstract and, where there is one, full text."""
    sections = [("Abstract", row.get("abstract") or "")]
    sections += [(part["title"] or "", part["sentences"]) for part in row.get("full_text") or []]
    title = row.get("title") or ""
    if not any(content for _, content in sections):
        sections = [("", title)]  # a paper of which only the title is known is that sentence
    return Document.from_sections(title, sections)


def _queried(place: str, row: Row) -> Iterator[tuple[str, Document]]:
    if "query" not in row:
        yield str(row["doc_id"]), paper(row)
        return
    query = row["query"]
    if isinstance(query, str):
        yield str(row["doc_id"]), Document.from_text(query)
    else:
        yield str(query["doc_id"]), paper(query)
    for candidate in row["candidates"]:
        yield str(candidate["doc_id"]), paper(candidate)


def _identified(place: str, row: Row) -> Iterator[tuple[str, Document]]:
    yield str(row["doc_id"]), paper(row)


def _judgement(place: str, row: Row) -> Iterator[tuple[str, str, float]]:
    yield str(row["query_id"]), str(row["cand_id"]), float(row["score"])


def _get(known: dict[str, Document], identity: str) -> Document:
    if identity not in known:
        raise ValueError(f"the paper {identity} is judged, but is not among the papers: add it")
    return known[identity]


def _number(value: object) -> float | None:
    try:
        return float(str(value))
    except ValueError:
        return None
