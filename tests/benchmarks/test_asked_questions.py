import json
import lzma

import pytest
from asked_questions import read_questions


def write(folder, articles):
    (folder / "qa").mkdir()
    content = json.dumps({"source": "Fish", "data": articles}).encode()
    (folder / "qa" / "fish.json.xz").write_bytes(lzma.compress(content))
    return folder


def paragraph(context, **questions):
    return {
        "context": context,
        "qas": [
            {
                "question": question.replace("_", " "),
                "answers": [{"text": x, "answer_start": context.index(x)} for x in answers],
            }
            for question, answers in questions.items()
        ],
    }


def found(example):
    texts = [sentence.text for sentence in example.document.sentences()]
    return {query.text: [texts[i] for i in query.sentence_ids] for query in example.queries}


def test_questions_find_the_sentences_of_their_answers(tmp_path):
    first = paragraph(
        "Cod swim.  They eat\nherring, Mr. Ray says. At night, they sleep.",
        Food=["herring"],
        Who=["Mr. Ray"],
        Activities=["swim", "they sleep"],
        Both=["says. At night"],
        Nothing=[],
    )
    second = paragraph("Eels eat cod.", Food=["cod"])
    [example] = read_questions(
        write(tmp_path, [{"title": "Two_fish", "paragraphs": [first, second]}]), "fish"
    )
    assert (example.id, example.document.title) == ("fish-0", "Two fish")
    assert len(example.document.sections) == 1
    eat, sleep = "They eat herring, Mr. Ray says.", "At night, they sleep."
    assert found(example) == {
        "Food": [eat, "Eels eat cod."],
        "Who": [eat],
        "Activities": ["Cod swim.", sleep],
        "Both": [eat, sleep],
    }


@pytest.mark.parametrize("abstract", ["Cod swim.", "nan"])
def test_papers_lose_their_front_matter(tmp_path, abstract):
    context = (
        f"Cod\n\nhttps://cod.org\n\nAnn Ray\nDate: 1801\n\nAbstract: {abstract}\n\nText: They eat."
    )
    paper = {"title": "", "paragraphs": [paragraph(context, What=["eat"], Who=["Ann Ray"])]}
    [example] = read_questions(write(tmp_path, [paper]), "fish")
    assert example.document.title == "Cod"
    expected = [] if abstract == "nan" else ["Cod swim."]
    assert [one.text for one in example.document.sentences()] == [*expected, "They eat."]
    assert found(example) == {"What": ["They eat."]}


def test_every_fourth_document_is_for_development(tmp_path):
    articles = [{"title": str(i), "paragraphs": [paragraph("Cod swim.")]} for i in range(9)]
    folder = write(tmp_path, articles)
    parts = {
        part: [example.document.title for example in read_questions(folder, "fish", part)]
        for part in ("train", "dev", "all")
    }
    assert parts == {"train": list("0124568"), "dev": ["3", "7"], "all": list("012345678")}
