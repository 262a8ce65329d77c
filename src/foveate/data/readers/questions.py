"""Questions: SCROLLS, QMSum, QuALITY, HotpotQA and WikiHop."""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from os import PathLike

from foveate.data.example import Example
from foveate.documents import Document

from .rows import Row, each, rows

_CHOICE = re.compile(r"^\s*\([A-Z]\) (.*)$", re.MULTILINE)


def scrolls(path: str | PathLike[str]) -> Iterator[Example]:
    """Read a task of SCROLLS that asks nothing, GovReport or SummScreenFD: JSON Lines."""
    return merged(each(untold, rows(path)))


def scrolls_questions(path: str | PathLike[str]) -> Iterator[Example]:
    """Read a task of SCROLLS that asks: Qasper, NarrativeQA, QuALITY, ContractNLI or QMSum.

    There the question, and the choices if any, stand before the first blank line.
    """
    return merged(each(asked, rows(path)))


def qmsum(path: str | PathLike[str]) -> Iterator[Example]:
    """Read QMSum (Zhong et al., 2021): meetings, each of which gives an example for every query.

    The transcript is sections by topic and paragraphs by turn; marks such as `{vocalsound}` are
    left out. The label is "general" or "specific", and "academic", "product" or "committee" where
    the file says the domain.
    """
    return each(_meeting, rows(path))


def quality(path: str | PathLike[str]) -> Iterator[Example]:
    """Read QuALITY (Pang et al., 2022): JSON Lines of articles; an example for every question."""
    return each(_article, rows(path))


def hotpotqa(path: str | PathLike[str]) -> Iterator[Example]:
    """Read HotpotQA (Yang et al., 2018): JSON; each paragraph of the context is a section."""
    return each(paragraphs, rows(path))


def wikihop(path: str | PathLike[str]) -> Iterator[Example]:
    """Read WikiHop of QAngaroo (Welbl et al., 2018): JSON; each support is a section.

    The question is the relation and the entity, its underscores turned to spaces.
    """
    return each(hops, rows(path))


def merged(examples: Iterable[Example]) -> Iterator[Example]:
    """Put the references of examples of the same id together, as SCROLLS' evaluation does."""
    found: dict[str, Example] = {}
    for example in examples:
        before = found.get(example.id)
        references = (*before.references, *example.references) if before else example.references
        found[example.id] = replace(example, references=references)
    yield from found.values()


def untold(place: str, row: Row) -> Iterator[Example]:
    """Make an example of a row of SCROLLS that asks nothing."""
    yield Example(row["id"], Document.from_text(row["input"]), references=_output(row))


def asked(place: str, row: Row) -> Iterator[Example]:
    """Make an example of a row of SCROLLS that asks something."""
    question, found, text = row["input"].partition("\n\n")
    if not found:
        raise ValueError("its input has no blank line between question and text")
    choices = tuple(_CHOICE.findall(question))
    if not choices and _CHOICE.match(text):  # QuALITY puts a blank line before its choices too
        listed, _, text = text.partition("\n\n")
        choices = tuple(_CHOICE.findall(listed))
    question = question.partition("\n")[0].strip() if choices else question.strip()
    yield Example(row["id"], Document.from_text(text), question, choices, _output(row))


def paragraphs(place: str, row: Row) -> Iterator[Example]:
    """Make an example of a question of HotpotQA."""
    context = row["context"]
    if isinstance(context, dict):  # as the hub has it
        context = zip(context["title"], context["sentences"], strict=True)
    document = Document.from_sections("", [(title, own) for title, own in context])
    answers = (row["answer"],) if "answer" in row else ()
    yield Example(row.get("_id") or row["id"], document, row["question"], references=answers)


def hops(place: str, row: Row) -> Iterator[Example]:
    """Make an example of a question of WikiHop."""
    document = Document.from_sections("", [("", support) for support in row["supports"]])
    answers = (row["answer"],) if "answer" in row else ()
    question = row["query"].replace("_", " ")
    yield Example(row["id"], document, question, tuple(row["candidates"]), answers)


def single_choice(place: str, row: Row) -> Iterator[Example]:
    """Make an example of a question of QuALITY with its article, as the hub has it."""
    options = tuple(row["options"])
    right = (options[row["answer"]],)
    yield Example(place, Document.from_text(row["article"]), row["question"], options, right)


def _output(row: Row) -> tuple[str, ...]:
    """The reference; none in the test part."""
    return () if row.get("output") is None else (row["output"],)


def _meeting(place: str, row: Row) -> Iterator[Example]:
    document = Document.from_text(json.dumps(row), format="json")
    identity = str(row.get("id", place))
    domain = (row["domain"],) if "domain" in row else ()
    for number, (kind, query) in enumerate(_queries(row)):
        yield Example(
            f"{identity} {number}",
            document,
            query["query"],
            references=(query["answer"],),
            labels=(kind, *domain),
        )


def _queries(row: Row) -> list[tuple[str, Row]]:
    """The queries with their kind: as published, or in one list."""
    if "queries" in row:
        return [(query["kind"], query) for query in row["queries"]]
    return [
        (kind, query) for kind in ("general", "specific") for query in row[f"{kind}_query_list"]
    ]


def _article(place: str, row: Row) -> Iterator[Example]:
    document = Document.from_text(row["article"], title=row.get("title"))
    for question in row["questions"]:
        options = tuple(question["options"])
        right = (options[question["gold_label"] - 1],) if "gold_label" in question else ()
        identity = question["question_unique_id"]
        yield Example(identity, document, question["question"], options, right)
