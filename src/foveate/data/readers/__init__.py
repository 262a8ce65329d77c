"""Readers of benchmarks in the format in which they were published."""

from collections.abc import Callable, Iterator
from os import PathLike

from foveate.data.example import Example

from .classification import read_ecthr, read_ecthr_arg, read_mimic
from .question_answering import (
    read_hotpotqa,
    read_qmsum,
    read_quality,
    read_scrolls,
    read_scrolls_questions,
    read_wikihop,
)
from .summarization import (
    read_arxiv,
    read_cnn_dailymail,
    read_facetsum,
    read_facetsum_sections,
    read_govreport,
    read_mediasum,
    read_multi_news,
    read_scisummnet,
    read_wcep,
)

BENCHMARKS: dict[str, Callable[[str | PathLike[str]], Iterator[Example]]] = {
    "arxiv": read_arxiv,
    "cnn_dailymail": read_cnn_dailymail,
    "ecthr": read_ecthr,
    "ecthr_arg": read_ecthr_arg,
    "facetsum": read_facetsum,
    "facetsum_sections": read_facetsum_sections,
    "govreport": read_govreport,
    "hotpotqa": read_hotpotqa,
    "mediasum": read_mediasum,
    "mimic": read_mimic,
    "multi_news": read_multi_news,
    "pubmed": read_arxiv,
    "qmsum": read_qmsum,
    "quality": read_quality,
    "scisummnet": read_scisummnet,
    "scrolls": read_scrolls,
    "scrolls_questions": read_scrolls_questions,
    "wcep": read_wcep,
    "wikihop": read_wikihop,
}
"""The reader of each benchmark."""


def read_benchmark(benchmark: str, path: str | PathLike[str]) -> Iterator[Example]:
    """Read the examples of a benchmark's file.

    Args:
        benchmark: A name in `BENCHMARKS`.
        path: The file as published, or a folder of such files, which may be gzipped. The readers
            describe the expected format.

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
    return BENCHMARKS[benchmark](path)
