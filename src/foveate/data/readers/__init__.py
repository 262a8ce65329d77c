"""Readers of benchmarks in the format in which they were published."""

from collections.abc import Callable, Iterable, Iterator
from os import PathLike
from pathlib import Path

from foveate.data.example import Example
from foveate.data.records import LocatedRecords, Record, parse_records, read_records

from . import classification, meetings, question_answering, summarization

Parser = Callable[[str, Record], Iterable[Example]]
"""Takes the place of a record, for messages, and the record."""

BENCHMARKS: dict[str, Parser] = {
    "ami": meetings.meeting_record,
    "arxiv": summarization.arxiv_record,
    "cnn_dailymail": summarization.news_record,
    "convosumm": summarization.article_cluster_record,
    "ecthr": classification.ecthr_record,
    "ecthr_arg": classification.ecthr_arg_record,
    "facetsum": summarization.facetsum_record,
    "facetsum_sections": summarization.facetsum_sections_record,
    "facetsum_zero_shot": summarization.facetsum_zero_shot_record,
    "govreport": summarization.govreport_record,
    "hotpotqa": question_answering.hotpotqa_record,
    "icsi": meetings.meeting_record,
    "mediasum": summarization.mediasum_record,
    "mimic": classification.mimic_record,
    "multi_news": summarization.article_cluster_record,
    "pubmed": summarization.arxiv_record,
    "qasper": question_answering.qasper_record,
    "qmsum": question_answering.qmsum_record,
    "quality": question_answering.quality_record,
    "scisummnet": summarization.scisummnet_record,
    "scrolls": question_answering.scrolls_summary_record,
    "scrolls_questions": question_answering.scrolls_question_record,
    "wcep": summarization.article_cluster_record,
    "wikihop": question_answering.wikihop_record,
}
"""What parses the records of each benchmark."""

_SCROLLS = (
    question_answering.scrolls_summary_record,
    question_answering.scrolls_question_record,
)

_READERS: dict[str, Callable[[Path], LocatedRecords]] = {
    "ami": meetings.read_meetings,
    "convosumm": summarization.read_convosumm,
    "ecthr_arg": classification.read_cases,
    "icsi": meetings.read_meetings,
    "multi_news": summarization.read_multi_news,
    "scisummnet": summarization.read_scisummnet,
}
"""What reads the records of benchmarks that are not files of records."""


def read_benchmark(benchmark: str, path: str | PathLike[str]) -> Iterator[Example]:
    """Read the examples of a benchmark's file.

    Args:
        benchmark: A name in `BENCHMARKS`.
        path: The file as published, or a folder of such files, which may be gzipped. Its entry in
            `BENCHMARKS` describes the expected format.

    Returns:
        An iterator over the examples.

    Raises:
        OSError: The file does not exist.
        ValueError: The benchmark is unknown, or a record is not in its format.

    Example:
        >>> import json
        >>> from foveate.data import read_benchmark
        >>> file = getfixture("tmp_path") / "dev.json"
        >>> record = {"id": "1", "query": "place_of_birth cod", "answer": "sea"}
        >>> record |= {"candidates": ["sea", "land"], "supports": ["The cod is born in the sea."]}
        >>> _ = file.write_text(json.dumps([record]))
        >>> [example] = read_benchmark("wikihop", file)
        >>> example.query, example.choices, example.references
        ('place of birth cod', ('sea', 'land'), ('sea',))
    """
    if benchmark not in BENCHMARKS:
        raise ValueError(f"unknown benchmark {benchmark!r}: name one of {', '.join(BENCHMARKS)}")
    parse = BENCHMARKS[benchmark]
    examples = parse_records(parse, _READERS.get(benchmark, read_records)(Path(path)))
    return question_answering.merge_references(examples) if parse in _SCROLLS else examples
