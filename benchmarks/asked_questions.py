"""Documents with questions that people asked about them, from files in the form of SQuAD.

    read_questions(report.DATA, "squad", "train")

reads `qa/squad.json.xz`: articles of Wikipedia (SQuAD 2.0), papers on the coronavirus (COVID-QA) or
privacy policies of web sites (PolicyQA). Each article is one document, each context a paragraph of
it. A question finds the sentences that its answers lie in; questions without an answer are left
out. Every fourth article is for development.
"""

import json
import lzma
import re
from bisect import bisect_right
from collections.abc import Iterable
from itertools import accumulate
from pathlib import Path
from typing import Any, Literal

from foveate import Document
from foveate.data import Example, Query

LICENSES = {
    "squad": ("SQuAD 2.0", "CC BY-SA 4.0"),
    "covid": ("COVID-QA", "Apache-2.0; papers: CC BY"),
    "policies": ("PolicyQA", "MIT"),
}
"""The source of each file, and its license."""

_DEV_STEP = 4  # every fourth article is for development
_FRONT_MATTER = re.compile(r"\A.*?^Abstract: *(?:nan$)?", re.DOTALL | re.MULTILINE)
_LABEL = re.compile(r"^Text: ", re.MULTILINE)  # of the text that follows an abstract


def read_questions(
    data: Path, name: str, part: Literal["train", "dev", "all"] = "all"
) -> list[Example]:
    """Read one of the files: documents in one section each, with the questions that people asked.

    A question that was asked about several paragraphs of a document finds all of its answers.

    Args:
        data: The folder of texts that README.md describes.
        name: "squad", "covid" or "policies", or another file of the folder `qa`.
        part: "dev" is every fourth document, "train" the others.
    """
    with lzma.open(data / "qa" / f"{name}.json.xz", "rt", encoding="utf-8") as file:
        articles = json.load(file)["data"]
    return [
        _example(f"{name}-{index}", article)
        for index, article in enumerate(articles)
        if part == "all" or (part == "dev") == (index % _DEV_STEP == _DEV_STEP - 1)
    ]


def _example(id: str, article: dict[str, Any]) -> Example:
    """Return an article with its questions.

    An offset is counted in characters that are not blank: lines are joined when text is split into
    sentences, but no other character changes.
    """
    contexts = [_without_front_matter(one["context"]) for one in article["paragraphs"]]
    first_line = article["paragraphs"][0]["context"].partition("\n")[0]  # of papers, the title
    document = Document.from_sections(
        article["title"].replace("_", " ") or first_line,
        [("", "\n\n".join(contexts))],
        language="en",
    )
    starts = _starts(sentence.text for sentence in document.sentences())
    found: dict[str, set[int]] = {}
    for context, base, paragraph in zip(
        contexts, _starts(contexts), article["paragraphs"], strict=False
    ):
        for question in paragraph["qas"]:
            text = " ".join(question["question"].split())
            for answer in question["answers"]:
                first = base + _length(context[: answer["answer_start"]])
                end = first + _length(_span(context, answer))
                if end > first:  # not in front matter
                    sentences = range(
                        bisect_right(starts, first) - 1, bisect_right(starts, end - 1)
                    )
                    found.setdefault(text, set()).update(sentences)
    queries = (Query(text, tuple(sorted(sentences))) for text, sentences in found.items())
    return Example(id=id, document=document, queries=tuple(queries))


def _without_front_matter(context: str) -> str:
    """Replace a paper's title, authors and labels by blanks of the same length."""
    text = _FRONT_MATTER.sub(_blanks, context, count=1)
    return text if text == context else _LABEL.sub(_blanks, text, count=1)


def _blanks(match: re.Match[str]) -> str:
    return " " * len(match[0])


def _span(context: str, answer: dict[str, Any]) -> str:
    return context[answer["answer_start"] :][: len(answer["text"])]


def _starts(texts: Iterable[str]) -> list[int]:
    """Return where each text begins in all of them, and the end, without blanks."""
    return list(accumulate(map(_length, texts), initial=0))


def _length(text: str) -> int:
    return len("".join(text.split()))
