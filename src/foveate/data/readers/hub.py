"""Benchmarks under the names they have on the Hugging Face hub, for those who want them from there.

Nothing is downloaded unless a name is asked for.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import NamedTuple

from foveate.data.example import Example, Ranking

from . import classes, questions, scirepeval, summaries
from .rows import Places, Row, each

_AS_PARQUET = "refs/convert/parquet"
"""Where the hub keeps data sets whose own loading scripts `datasets` no longer runs."""


class Source(NamedTuple):
    """Where a benchmark is on the hub.

    Attributes:
        name: of the data set.
        config: of it, None where it has one only.
        make: makes examples of a row.
        revision: None for the main one.
    """

    name: str
    config: str | None
    make: Callable[[str, Row], Iterable[Example]]
    revision: str | None = None


_article = partial(summaries.flat, text="article", summary="abstract")
_report = partial(summaries.flat, text="report", summary="summary")

FULL_TEXT = "howey/super_scirep"
"""FullTextSciRepEval, where HDT has its numbers from."""

_TASKS_THAT_SHARE_PAPERS = {
    f"scidocs_{task}": "scidocs_view_cite_read" for task in ("cite", "cocite", "view", "read")
} | dict.fromkeys(("peer_review_score", "hIndex"), "peer_review_score_hIndex")

HUB = {
    "arxiv": Source("ccdv/arxiv-summarization", "document", _article),
    "ecthr_a": Source("coastalcph/lex_glue", "ecthr_a", classes.case),
    "ecthr_b": Source("coastalcph/lex_glue", "ecthr_b", classes.case),
    "facetsum": Source("memray/FacetSum", None, summaries.facets),
    "govreport": Source("ccdv/govreport-summarization", "document", _report),
    "hotpotqa": Source("hotpotqa/hotpot_qa", "distractor", questions.paragraphs),
    "multi_news": Source("alexfabbri/multi_news", None, summaries.cluster, _AS_PARQUET),
    "pubmed": Source("ccdv/pubmed-summarization", "document", _article),
    "quality": Source("emozilla/quality", None, questions.single_choice),
    "wcep": Source("ccdv/WCEP-10", "list", summaries.cluster, _AS_PARQUET),
    "wikihop": Source("MoE-UNC/wikihop", None, questions.hops),
} | {
    f"scrolls_{task}": Source("tau/scrolls", task, make, _AS_PARQUET)
    for task, make in {
        "contract_nli": questions.asked,
        "gov_report": questions.untold,
        "narrative_qa": questions.asked,
        "qasper": questions.asked,
        "qmsum": questions.asked,
        "quality": questions.asked,
        "summ_screen_fd": questions.untold,
    }.items()
}


def from_hub(benchmark: str, split: str) -> Iterator[Example]:
    """Download a benchmark, or take it from the cache of `datasets`.

    Args:
        benchmark: one of `HUB`.
        split: "train", "validation" or "test", as the data set names them.

    Raises:
        ImportError: `datasets`, of the `evaluation` extra, is not installed.
        ValueError: there is no such benchmark, or a row is not of its form.
    """
    if benchmark not in HUB:
        raise ValueError(f"{benchmark!r} is not on the hub: name one of {', '.join(HUB)}")
    source = HUB[benchmark]
    examples = each(source.make, _rows(source.name, source.config, split, source.revision))
    return questions.merged(examples) if source.name == "tau/scrolls" else examples


def rankings_from_hub(task: str, papers: str = FULL_TEXT) -> Iterator[Ranking]:
    """Download a task of proximity or search: "feeds_1", "search", "scidocs_cite", ...

    Args:
        task: as the repository of test data names it.
        papers: the repository of papers: `FULL_TEXT`, or "allenai/scirepeval" for abstracts.

    Raises:
        ImportError: as `from_hub`.
        ValueError: a row is not of its form.
    """
    return scirepeval.rank(*_scirepeval(task, papers))


def labelled_from_hub(task: str, papers: str = FULL_TEXT) -> Iterator[Example]:
    """Download a task of classification or regression: "cite_count", "hIndex", ...

    Arguments and errors are those of `rankings_from_hub`.
    """
    return scirepeval.label(*_scirepeval(task, papers))


def _scirepeval(task: str, papers: str) -> tuple[Places, Places]:
    shared = _TASKS_THAT_SHARE_PAPERS.get(task, task)
    return _rows(papers, shared, "evaluation"), _rows(f"{papers}_test", task, "test")


def _rows(
    name: str, config: str | None, split: str, revision: str | None = None
) -> Iterator[tuple[str, Row]]:
    try:
        import datasets
    except ImportError as error:
        raise ImportError(
            "the hub needs datasets: run `pip install 'foveate[evaluation]'`"
        ) from error
    loaded = datasets.load_dataset(name, config, split=split, revision=revision)
    names = {
        column: classes.int2str
        for column, feature in loaded.features.items()
        if isinstance(classes := getattr(feature, "feature", feature), datasets.ClassLabel)
    }
    for number, row in enumerate(loaded, 1):
        # The hub keeps classes as their places in a list of names.
        named = {column: name_of(row[column]) for column, name_of in names.items()}
        yield f"{name}, {split} row {number}", {**row, **named}
