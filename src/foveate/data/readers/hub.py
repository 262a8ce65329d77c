"""Benchmarks on the Hugging Face hub, by name.

Nothing is downloaded until one of the functions is called.
"""

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

from foveate.data.example import Example
from foveate.data.records import Record

from . import Parser, classification, parse_benchmark, question_answering, summarization

_PARQUET_REVISION = "refs/convert/parquet"
"""Where the hub keeps data sets whose loading scripts `datasets` no longer runs."""


class HubSource(NamedTuple):
    """Where a benchmark is on the hub.

    Attributes:
        name: The name of the data set.
        config: Its configuration, None if it has only one.
        parse: Parses a record into examples.
        revision: None for the main one.
    """

    name: str
    config: str | None
    parse: Parser
    revision: str | None = None


_paper_record = partial(summarization.text_and_summary_record, text="article", summary="abstract")
_report_record = partial(summarization.text_and_summary_record, text="report", summary="summary")

HUB_BENCHMARKS = {
    "arxiv": HubSource("ccdv/arxiv-summarization", "document", _paper_record),
    "cnn_dailymail": HubSource("abisee/cnn_dailymail", "3.0.0", summarization.news_record),
    "ecthr_a": HubSource("coastalcph/lex_glue", "ecthr_a", classification.ecthr_record),
    "ecthr_b": HubSource("coastalcph/lex_glue", "ecthr_b", classification.ecthr_record),
    "facetsum": HubSource("memray/FacetSum", None, summarization.facetsum_record),
    "facetsum_sections": HubSource("memray/FacetSum", None, summarization.facetsum_sections_record),
    "govreport": HubSource("ccdv/govreport-summarization", "document", _report_record),
    "hotpotqa": HubSource("hotpotqa/hotpot_qa", "distractor", question_answering.hotpotqa_record),
    "multi_news": HubSource(
        "alexfabbri/multi_news", None, summarization.article_cluster_record, _PARQUET_REVISION
    ),
    "pubmed": HubSource("ccdv/pubmed-summarization", "document", _paper_record),
    "quality": HubSource("emozilla/quality", None, question_answering.quality_hub_record),
    "wcep": HubSource(
        "ccdv/WCEP-10", "list", summarization.article_cluster_record, _PARQUET_REVISION
    ),
    "wikihop": HubSource("MoE-UNC/wikihop", None, question_answering.wikihop_record),
} | {
    f"scrolls_{task}": HubSource("tau/scrolls", task, parse, _PARQUET_REVISION)
    for task, parse in {
        "contract_nli": question_answering.scrolls_question_record,
        "gov_report": question_answering.scrolls_summary_record,
        "narrative_qa": question_answering.scrolls_question_record,
        "qasper": question_answering.scrolls_question_record,
        "qmsum": question_answering.scrolls_question_record,
        "quality": question_answering.scrolls_question_record,
        "summ_screen_fd": question_answering.scrolls_summary_record,
    }.items()
}
"""The benchmarks that `read_from_hub` knows."""


def read_from_hub(benchmark: str, split: str) -> Iterator[Example]:
    """Download a benchmark, or take it from the cache of `datasets`.

    Args:
        benchmark: A name in `HUB_BENCHMARKS`.
        split: "train", "validation" or "test", as the data set names them.

    Raises:
        ImportError: `datasets`, of the `evaluation` extra, is not installed.
        ValueError: The benchmark is unknown, or a record is not in its format.
    """
    if benchmark not in HUB_BENCHMARKS:
        raise ValueError(
            f"{benchmark!r} is not on the hub: name one of {', '.join(HUB_BENCHMARKS)}"
        )
    source = HUB_BENCHMARKS[benchmark]
    records = download_records(source.name, source.config, split, source.revision)
    return parse_benchmark(source.parse, records)


def download_records(
    name: str, config: str | None, split: str, revision: str | None = None
) -> Iterator[tuple[str, Record]]:
    """Read a part of a data set on the hub, with the place of each record.

    Raises:
        ImportError: datasets is not installed.
    """
    try:
        import datasets
    except ImportError as error:
        raise ImportError(
            "reading from the hub needs datasets: run `pip install 'foveate[evaluation]'`"
        ) from error
    dataset = datasets.load_dataset(name, config, split=split, revision=revision)
    # The hub stores classes as indices into a list of names.
    class_names = {
        column: label.int2str
        for column, feature in dataset.features.items()
        if isinstance(label := getattr(feature, "feature", feature), datasets.ClassLabel)
    }
    for number, record in enumerate(dataset, 1):
        named = {column: name_of(record[column]) for column, name_of in class_names.items()}
        yield f"{name}, {split} record {number}", {**record, **named}
