"""Summarization: arXiv, PubMed, GovReport, Multi-News, WCEP, FacetSum and ScisummNet."""

import re
from collections.abc import Iterator
from itertools import zip_longest
from os import PathLike
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from foveate.data.example import Example
from foveate.documents import Document

from .rows import Row, each, opened, rows

_TAG = re.compile(r"</?S>")
_BETWEEN_ARTICLES = re.compile(r"\|\|\|\|\||story_separator_special_tag")
_FACETS = {
    "Purpose": "Purpose",
    "Design/methodology/approach": "Method",
    "Findings": "Findings",
    "Originality/value": "Value",
}


def papers(path: str | PathLike[str]) -> Iterator[Example]:
    """Read arXiv or PubMed (Cohan et al., 2018): JSON Lines, `train.txt`, `val.txt`, `test.txt`."""
    return each(_paper, rows(path))


def govreport(path: str | PathLike[str]) -> Iterator[Example]:
    """Read GovReport (Huang et al., 2021): a report of GAO or CRS, or the folder of them."""
    return each(_report, rows(path))


def multi_news(path: str | PathLike[str]) -> Iterator[Example]:
    """Read Multi-News (Fabbri et al., 2019): `train.src.cleaned`, with `train.tgt` beside it.

    Raises:
        ValueError: the file's name has no `.src`, or the two have different numbers of lines.
    """
    return each(cluster, _pairs(Path(path)))


def wcep(path: str | PathLike[str]) -> Iterator[Example]:
    """Read WCEP (Gholipour Ghalandari et al., 2020): JSON Lines, `train.jsonl.gz`."""
    return each(cluster, rows(path))


def facetsum(path: str | PathLike[str]) -> Iterator[Example]:
    """Read FacetSum (Meng et al., 2021): JSON Lines; four examples a paper, one for each facet.

    The question is "Purpose", "Method", "Findings" or "Value".
    """
    return each(facets, rows(path))


def scisummnet(path: str | PathLike[str]) -> Iterator[Example]:
    """Read ScisummNet (Yasunaga et al., 2019): the folder that holds a folder for each paper.

    The abstract, from which the summary was made, is not part of the document.
    """
    return each(_annotated, _papers_in(Path(path)))


def flat(place: str, row: Row, *, text: str, summary: str) -> Iterator[Example]:
    """Make an example of a row that has the text and its summary in one column each."""
    document = Document.from_text(row[text])
    yield Example(str(row.get("id", place)), document, references=(row[summary],))


def cluster(place: str, row: Row) -> Iterator[Example]:
    """Make an example of several articles with one summary: each article a section."""
    if "articles" in row:
        parts = [(article.get("title") or "", article["text"]) for article in row["articles"]]
    elif isinstance(row["document"], str):
        parts = [("", article) for article in _BETWEEN_ARTICLES.split(row["document"])]
    else:
        parts = [("", article) for article in row["document"]]
    document = Document.from_sections("", parts)
    yield Example(str(row.get("id", place)), document, references=(row["summary"].strip(),))


def _paper(place: str, row: Row) -> Iterator[Example]:
    sections = list(zip(row["section_names"], row["sections"], strict=True))
    abstract = " ".join(_TAG.sub("", sentence).strip() for sentence in row["abstract_text"])
    document = Document.from_sections("", sections)
    yield Example(row["article_id"], document, references=(abstract,))


def _report(place: str, row: Row) -> Iterator[Example]:
    if "highlight" in row:  # GAO
        parts, summary = row["report"], [p for part in row["highlight"] for p in part["paragraphs"]]
    else:  # CRS
        parts, summary = [row["reports"]], row["summary"]
    document = Document.from_sections(row.get("title") or "", [_section(part) for part in parts])
    yield Example(row["id"], document, references=("\n".join(summary),))


def _section(part: Row) -> dict[str, Any]:
    return {
        "title": part["section_title"],
        "text": "\n\n".join(part["paragraphs"]),
        "sections": [_section(below) for below in part["subsections"]],
    }


def _pairs(source: Path) -> Iterator[tuple[str, Row]]:
    if ".src" not in source.name:
        raise ValueError(f"{source} is not the source side: name the file that has .src in it")
    names = [source.name.replace(".src", ".tgt")]
    names.append(names[0].replace(".cleaned", ""))
    target = next((source.with_name(n) for n in names if source.with_name(n).exists()), None)
    if target is None:
        raise FileNotFoundError(f"{source.with_name(names[0])} does not exist: put it there")
    with opened(source) as texts, opened(target) as summaries:
        for number, (text, summary) in enumerate(zip_longest(texts, summaries), 1):
            if text is None or summary is None:
                raise ValueError(f"{source} and {target} differ in length: line {number} is in one")
            document = text.replace("NEWLINE_CHAR", "\n")
            yield f"{source}, line {number}", {"document": document, "summary": summary}


def facets(place: str, row: Row) -> Iterator[Example]:
    """Make the four examples of a paper of FacetSum."""
    names = ["" if name == "__NO_TITLE__" else name for name in row["section_names"]]
    parts = [(name, "\n\n".join(p)) for name, p in zip(names, row["sections"], strict=True)]
    document = Document.from_sections(row["title"], parts)
    abstract = dict(zip(row["abstract_sections_names"], row["abstract_sections"], strict=True))
    for name, facet in _FACETS.items():
        summary = " ".join(abstract[name])
        yield Example(f"{row['id']} {facet}", document, question=facet, references=(summary,))


def _papers_in(folder: Path) -> Iterator[tuple[str, Row]]:
    if not folder.is_dir():
        raise NotADirectoryError(
            f"{folder} is not a folder of papers: name the one that holds them"
        )
    for paper in sorted(child for child in folder.iterdir() if child.is_dir()):
        xml = paper / "Documents_xml" / f"{paper.name}.xml"
        summary = paper / "summary" / f"{paper.name}.gold.txt"
        content = {"xml": xml.read_text("utf-8"), "summary": summary.read_text("utf-8")}
        yield str(xml), {"id": paper.name, **content}


def _annotated(place: str, row: Row) -> Iterator[Example]:
    if "<!ENTITY" in row["xml"]:
        raise ValueError("it declares entities of its own")
    try:
        root = ElementTree.fromstring(row["xml"])
    except ElementTree.ParseError as error:
        raise ValueError(f"not well-formed XML: {error}") from error
    title = " ".join(_sentences(root))
    parts = [(part.get("title", ""), _sentences(part)) for part in root.iter("SECTION")]
    lines = row["summary"].split("\n")
    if lines[0].split() == title.split():
        del lines[0]
    summary = " ".join(" ".join(lines).split())
    yield Example(row["id"], Document.from_sections(title, parts), references=(summary,))


def _sentences(element: ElementTree.Element) -> list[str]:
    return [sentence.text or "" for sentence in element.findall("S")]
