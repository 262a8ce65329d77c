"""Readers of the benchmarks' own files, each of which gives examples."""

from collections.abc import Callable, Iterator
from os import PathLike

from foveate.data.example import Example

from .classes import ecthr, mimic
from .hub import HUB, from_hub, labelled_from_hub, rankings_from_hub
from .questions import hotpotqa, qmsum, quality, scrolls, scrolls_questions, wikihop
from .scirepeval import labelled, rankings
from .summaries import facetsum, govreport, multi_news, papers, scisummnet, wcep

READERS: dict[str, Callable[[str | PathLike[str]], Iterator[Example]]] = {
    "arxiv": papers,
    "ecthr": ecthr,
    "facetsum": facetsum,
    "govreport": govreport,
    "hotpotqa": hotpotqa,
    "mimic": mimic,
    "multi_news": multi_news,
    "pubmed": papers,
    "qmsum": qmsum,
    "quality": quality,
    "scisummnet": scisummnet,
    "scrolls": scrolls,
    "scrolls_questions": scrolls_questions,
    "wcep": wcep,
    "wikihop": wikihop,
}

__all__ = [
    "HUB",
    "READERS",
    "from_hub",
    "labelled",
    "labelled_from_hub",
    "rankings",
    "rankings_from_hub",
    "read",
]


def read(benchmark: str, path: str | PathLike[str]) -> Iterator[Example]:
    """Read a benchmark's file.

    Args:
        benchmark: one of `READERS`; SciRepEval, whose tasks are two files each, has `rankings` and
            `labelled` of its own.
        path: the file, as published; the readers say in which form. It may be gzipped, and a
            folder of such files will do.

    Raises:
        OSError: there is no such file.
        ValueError: there is no such benchmark, or a row is not of its form.

    Example:
        >>> import json
        >>> from foveate.evaluation import read
        >>> file = getfixture("tmp_path") / "dev.json"
        >>> question = {"id": "1", "query": "place_of_birth cod", "answer": "sea"}
        >>> question |= {"candidates": ["sea", "land"], "supports": ["The cod is born in the sea."]}
        >>> _ = file.write_text(json.dumps([question]))
        >>> [example] = read("wikihop", file)
        >>> example.question, example.choices, example.references
        ('place of birth cod', ('sea', 'land'), ('sea',))
    """
    if benchmark not in READERS:
        raise ValueError(f"there is no benchmark {benchmark!r}: name one of {', '.join(READERS)}")
    return READERS[benchmark](path)
