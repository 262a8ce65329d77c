"""Questions about documents: SCROLLS, QASPER, QMSum, QuALITY, HotpotQA and WikiHop."""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from foveate.data.example import Example, Query
from foveate.data.records import Record
from foveate.documents import Document

_CHOICE = re.compile(r"^\s*\([A-Z]\) (.*)$", re.MULTILINE)


def merge_references(examples: Iterable[Example]) -> Iterator[Example]:
    """Merge the references of examples with the same id, as the evaluation of SCROLLS does."""
    merged: dict[str, Example] = {}
    for example in examples:
        previous = merged.get(example.id)
        references = (*previous.references, *example.references) if previous else example.references
        merged[example.id] = replace(example, references=references)
    yield from merged.values()


def scrolls_summary_record(place: str, record: Record) -> Iterator[Example]:
    """Parse a record of a task of SCROLLS without questions: GovReport or SummScreenFD."""
    yield Example(
        id=record["id"],
        document=Document.from_text(record["input"]),
        references=_scrolls_references(record),
    )


def scrolls_question_record(place: str, record: Record) -> Iterator[Example]:
    """Parse a record of a task of SCROLLS with questions.

    These are Qasper, NarrativeQA, QuALITY, ContractNLI and QMSum. The question, and the choices if
    there are any, precede the first blank line.
    """
    query, blank_line, text = record["input"].partition("\n\n")
    if not blank_line:
        raise ValueError("its input has no blank line between question and text")
    choices = tuple(_CHOICE.findall(query))
    if not choices and _CHOICE.match(text):  # QuALITY also has a blank line before its choices
        listed_choices, _, text = text.partition("\n\n")
        choices = tuple(_CHOICE.findall(listed_choices))
    query = query.partition("\n")[0].strip() if choices else query.strip()
    yield Example(
        id=record["id"],
        document=Document.from_text(text),
        query=query,
        choices=choices,
        references=_scrolls_references(record),
    )


def qasper_record(place: str, record: Record) -> Iterator[Example]:
    """Parse a file of QASPER (Dasigi et al., 2021), whose papers are the fields of one object.

    The abstract is the first section. The labels of a question are the kinds of its answers, which
    several people wrote: "extractive", "abstractive", "boolean" and "unanswerable".
    """
    for paper in record.values():
        sections = [("Abstract", paper["abstract"])] + [
            (section["section_name"] or "", "\n\n".join(section["paragraphs"]))
            for section in paper["full_text"]
        ]
        document = Document.from_sections(
            paper["title"], [part for part in sections if part[1].strip()]
        )
        for question in paper["qas"]:
            answers = [_qasper_answer(each["answer"]) for each in question["answers"]]
            yield Example(
                id=question["question_id"],
                document=document,
                query=question["question"],
                references=tuple(text for text, _ in answers),
                labels=tuple(sorted({kind for _, kind in answers})),
            )


def _qasper_answer(answer: Record) -> tuple[str, str]:
    """Write out an answer as the evaluation of QASPER does, and name its kind."""
    if answer["unanswerable"]:
        return "Unanswerable", "unanswerable"
    if answer["extractive_spans"]:
        return ", ".join(answer["extractive_spans"]), "extractive"
    if answer["free_form_answer"]:
        return answer["free_form_answer"], "abstractive"
    if answer["yes_no"] is None:
        raise ValueError("one of its answers is empty")
    return "Yes" if answer["yes_no"] else "No", "boolean"


def hotpotqa_record(place: str, record: Record) -> Iterator[Example]:
    """Parse a question of HotpotQA (Yang et al., 2018).

    Each paragraph of the context is a section. The question's `queries` name the sentences that
    support the answer.
    """
    sections = [
        (title, [sentence for sentence in sentences if sentence.strip()])
        for title, sentences in record["context"]
    ]
    places = (
        (title, number)
        for title, sentences in record["context"]
        for number, sentence in enumerate(sentences)
        if sentence.strip()
    )
    facts = {(title, number) for title, number in record.get("supporting_facts", ())}
    support = tuple(i for i, place in enumerate(places) if place in facts)
    yield Example(
        id=record["_id"],
        document=Document.from_sections("", sections),
        query=record["question"],
        references=(record["answer"],) if "answer" in record else (),
        queries=(Query(record["question"], support),) if support else (),
    )


def wikihop_record(place: str, record: Record) -> Iterator[Example]:
    """Parse a question of WikiHop of QAngaroo (Welbl et al., 2018).

    Each support is a section. The query is the relation and the entity, with spaces in place of
    underscores.
    """
    yield Example(
        id=record["id"],
        document=Document.from_sections("", [("", support) for support in record["supports"]]),
        query=record["query"].replace("_", " "),
        choices=tuple(record["candidates"]),
        references=(record["answer"],) if "answer" in record else (),
    )


def _scrolls_references(record: Record) -> tuple[str, ...]:
    """Return the reference; there is none in the test part."""
    return () if record.get("output") is None else (record["output"],)


def qmsum_record(place: str, record: Record) -> Iterator[Example]:
    """Parse a meeting of QMSum (Zhong et al., 2021) into an example for every query.

    A section is a topic and a paragraph is a turn; marks such as `{vocalsound}` are removed. The
    labels are "general" or "specific" and, if the file names the domain, "academic", "product" or
    "committee".
    """
    document = Document.from_text(json.dumps(record), format="json")
    meeting = str(record.get("id", place))
    domain = (record["domain"],) if "domain" in record else ()
    for number, (kind, query) in enumerate(_qmsum_queries(record)):
        yield Example(
            id=f"{meeting} {number}",
            document=document,
            query=query["query"],
            references=(query["answer"],),
            labels=(kind, *domain),
        )


def _qmsum_queries(record: Record) -> list[tuple[str, Record]]:
    """Return the queries with their kinds, from either form of the file."""
    if "queries" in record:
        return [(query["kind"], query) for query in record["queries"]]
    return [
        (kind, query) for kind in ("general", "specific") for query in record[f"{kind}_query_list"]
    ]


def quality_record(place: str, record: Record) -> Iterator[Example]:
    """Parse an article of QuALITY (Pang et al., 2022) into an example for every question.

    Questions of the hard subset, which fewer than half of the annotators answered correctly under
    time pressure, have the label "hard"; the others have none.
    """
    document = Document.from_text(record["article"], title=record.get("title"))
    for question in record["questions"]:
        choices = tuple(question["options"])
        yield Example(
            id=question["question_unique_id"],
            document=document,
            query=question["question"],
            choices=choices,
            references=(choices[question["gold_label"] - 1],) if "gold_label" in question else (),
            labels=("hard",) if question.get("difficult") else (),
        )
