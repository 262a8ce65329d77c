"""Summarization: papers, reports, news and interviews."""

import json
import re
from collections.abc import Iterator
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from foveate.data.example import Example
from foveate.data.records import Record, check_text, check_texts, read_lines
from foveate.documents import Document

_SENTENCE_TAG = re.compile(r"</?S>")
_ARTICLE_SEPARATOR = re.compile(r"\|\|\|\|\||story_separator_special_tag")
_FACETS = {
    "Purpose": "Purpose",
    "Method": "Design/methodology/approach",
    "Findings": "Findings",
    "Value": "Originality/value",
}
"""The heading of each facet in a paper's abstract."""

_WORDS_OF_SECTIONS = {
    "Purpose": ("intro", "purpose"),  # introduction
    "Method": ("design", "method", "approach"),
    "Findings": ("result", "find", "discuss", "analy"),
    "Value": ("conclu", "future"),  # conclusion
}
"""Parts of words in the titles of the sections that a facet is about."""


def text_and_summary_record(
    place: str, record: Record, *, text: str, summary: str
) -> Iterator[Example]:
    """Parse a record with the text and its summary in one field each.

    Args:
        place: The record's place, in case it has no id.
        record: The record.
        text: The name of the field with the text.
        summary: The name of the field with the summary.
    """
    yield Example(
        id=str(record.get("id", place)),
        document=Document.from_text(check_text(record[text], text)),
        references=(check_text(record[summary], summary),),
    )


news_record = partial(text_and_summary_record, text="article", summary="highlights")
"""Parses an article of CNN/DailyMail (Hermann et al., 2015; See et al., 2017).

Its `highlights` are one on each line.
"""


def mediasum_record(place: str, record: Record) -> Iterator[Example]:
    """Parse an interview of MediaSum (Zhu et al., 2021), from NPR or CNN.

    A record has the utterances `utt`, the `speaker` of each, and a `summary`. An utterance is a
    paragraph with its speaker, without fillers such as "Mm-hmm". Title, program and date are not
    part of the document. The authors' `train_val_test_split.json` says which records, by `id`,
    belong to which part.
    """
    utterances = check_texts(record["utt"], "utt")
    speakers = check_texts(record["speaker"], "speaker")
    if len(utterances) != len(speakers):
        raise ValueError(f"{len(utterances)} utterances have {len(speakers)} speakers")
    turns = [
        {"speaker": speaker, "text": text}
        for speaker, text in zip(speakers, utterances, strict=True)
    ]
    yield Example(
        id=str(record.get("id", place)),
        document=Document.from_text(json.dumps({"turns": turns}), format="json"),
        references=(check_text(record["summary"], "summary"),),
    )


def article_cluster_record(place: str, record: Record) -> Iterator[Example]:
    """Parse several articles or comments with one summary; each of them becomes a section.

    They are those of Multi-News (Fabbri et al., 2019), WCEP (Gholipour Ghalandari et al., 2020) and
    ConvoSumm (Fabbri et al., 2021).
    """
    if "articles" in record:
        sections = [(article.get("title") or "", article["text"]) for article in record["articles"]]
    elif isinstance(record["document"], str):
        sections = [("", article) for article in _ARTICLE_SEPARATOR.split(record["document"])]
    else:
        sections = [("", article) for article in record["document"]]
    yield Example(
        id=str(record.get("id", place)),
        document=Document.from_sections("", sections),
        references=(record["summary"].strip(),),
    )


def facetsum_record(place: str, record: Record) -> Iterator[Example]:
    """Parse a paper of FacetSum (Meng et al., 2021) into its four examples.

    The query, and the label, is the facet: "Purpose", "Method", "Findings" or "Value".
    """
    document = Document.from_sections(record["title"], _facetsum_sections(record))
    for facet in _FACETS:
        yield _facetsum_example(record, facet, document)


def facetsum_sections_record(place: str, record: Record) -> Iterator[Example]:
    """Parse a paper of FacetSum into four examples with the sections of each facet (HDT, A.2.2).

    Sections are found by words in their titles: the introduction for "Purpose", methods for
    "Method", results for "Findings", and the conclusion for "Value"; a section may have several
    facets. The words are those of FacetSum's authors. Where no title has them, the introduction is
    the first section and the conclusion the last, and the other two facets are about the whole
    paper.
    """
    sections = _facetsum_sections(record)
    for facet in _FACETS:
        own = _sections_of_facet(sections, facet)
        yield _facetsum_example(record, facet, Document.from_sections(record["title"], own))


def facetsum_zero_shot_record(place: str, record: Record) -> Iterator[Example]:
    """Parse a paper of FacetSum into its examples of "Findings" and "Value" with their sections.

    A model that is trained with these is tested with `facetsum_sections` (HDT, Table 3).
    """
    for example in facetsum_sections_record(place, record):
        if example.query in ("Findings", "Value"):
            yield example


def _facetsum_sections(record: Record) -> list[tuple[str, str]]:
    titles = ["" if name == "__NO_TITLE__" else name for name in record["section_names"]]
    texts = ["\n\n".join(paragraphs) for paragraphs in record["sections"]]
    return [part for part in zip(titles, texts, strict=True) if part[1].strip()]


def _facetsum_example(record: Record, facet: str, document: Document) -> Example:
    names, paragraphs = record["abstract_sections_names"], record["abstract_sections"]
    summary = " ".join(dict(zip(names, paragraphs, strict=True))[_FACETS[facet]])
    name = f"{record['id']} {facet}"
    return Example(id=name, document=document, query=facet, references=(summary,), labels=(facet,))


def _sections_of_facet(sections: list[tuple[str, str]], facet: str) -> list[tuple[str, str]]:
    words = _WORDS_OF_SECTIONS[facet]
    found = [part for part in sections if any(word in part[0].lower() for word in words)]
    default = {"Purpose": sections[:1], "Value": sections[-1:]}.get(facet, sections)
    return found or default


def arxiv_record(place: str, record: Record) -> Iterator[Example]:
    """Parse a paper of arXiv or PubMed (Cohan et al., 2018)."""
    sections = list(zip(record["section_names"], record["sections"], strict=True))
    abstract = (_SENTENCE_TAG.sub("", sentence).strip() for sentence in record["abstract_text"])
    yield Example(
        id=record["article_id"],
        document=Document.from_sections("", sections),
        references=(" ".join(abstract),),
    )


def govreport_record(place: str, record: Record) -> Iterator[Example]:
    """Parse a report of GAO or CRS of GovReport (Huang et al., 2021)."""
    if "highlight" in record:  # GAO
        sections = record["report"]
        summary = [text for part in record["highlight"] for text in part["paragraphs"]]
    else:  # CRS
        sections, summary = [record["reports"]], record["summary"]
    yield Example(
        id=record["id"],
        document=Document.from_sections(
            record.get("title") or "", [_govreport_section(section) for section in sections]
        ),
        references=("\n".join(summary),),
    )


def _govreport_section(section: Record) -> dict[str, Any]:
    return {
        "title": section["section_title"],
        "text": "\n\n".join(section["paragraphs"]),
        "sections": [_govreport_section(subsection) for subsection in section["subsections"]],
    }


def read_multi_news(source: Path) -> Iterator[tuple[str, Record]]:
    """Read the records of Multi-News: `train.src.cleaned`, with `train.tgt` next to it."""
    for place, text, summary in _read_pairs(source, ".src", ".tgt"):
        yield place, {"document": text.replace("NEWLINE_CHAR", "\n"), "summary": summary}


def read_convosumm(source: Path) -> Iterator[tuple[str, Record]]:
    """Read the records of ConvoSumm: `train.source`, with `train.target` next to it.

    A line is a conversation, whose comments or mails are separated by `</s>`.
    """
    for place, text, summary in _read_pairs(source, ".source", ".target"):
        yield place, {"document": text.split("</s>"), "summary": summary}


def _read_pairs(source: Path, mark: str, target_mark: str) -> Iterator[tuple[str, str, str]]:
    """Read a file of texts and that of their summaries, line by line, each with its place."""
    if mark not in source.name:
        raise ValueError(f"{source} is not the source side: name the file that has {mark} in it")
    names = [source.name.replace(mark, target_mark)]
    names.append(names[0].replace(".cleaned", ""))
    paths = (source.with_name(name) for name in names)
    target = next((path for path in paths if path.exists()), None)
    if target is None:
        raise FileNotFoundError(f"{source.with_name(names[0])} does not exist: put it there")
    pairs = zip_longest(read_lines(source), read_lines(target))
    for number, (text, summary) in enumerate(pairs, 1):
        if text is None or summary is None:
            raise ValueError(
                f"{source} and {target} differ in length: line {number} is in only one of them"
            )
        yield f"{source}, line {number}", text, summary


def read_scisummnet(folder: Path) -> Iterator[tuple[str, Record]]:
    """Read the records of ScisummNet: the folder with a subfolder for each paper."""
    if not folder.is_dir():
        raise NotADirectoryError(
            f"{folder} is not a folder of papers: name the one that holds them"
        )
    for paper in sorted(child for child in folder.iterdir() if child.is_dir()):
        xml = paper / "Documents_xml" / f"{paper.name}.xml"
        summary = paper / "summary" / f"{paper.name}.gold.txt"
        content = {"xml": xml.read_text("utf-8"), "summary": summary.read_text("utf-8")}
        yield str(xml), {"id": paper.name, **content}


def scisummnet_record(place: str, record: Record) -> Iterator[Example]:
    """Parse a paper of ScisummNet (Yasunaga et al., 2019).

    The abstract, from which the summary was made, is not part of the document.
    """
    if "<!ENTITY" in record["xml"]:
        raise ValueError("it declares its own entities")
    try:
        root = ElementTree.fromstring(record["xml"])
    except ElementTree.ParseError as error:
        raise ValueError(f"not well-formed XML: {error}") from error
    title = " ".join(_sentences(root))
    sections = [(part.get("title", ""), _sentences(part)) for part in root.iter("SECTION")]
    lines = record["summary"].split("\n")
    if lines[0].split() == title.split():
        del lines[0]
    yield Example(
        id=record["id"],
        document=Document.from_sections(title, sections),
        references=(" ".join(" ".join(lines).split()),),
    )


def _sentences(element: ElementTree.Element) -> list[str]:
    return [sentence.text or "" for sentence in element.findall("S")]
