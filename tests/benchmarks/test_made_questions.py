import json
import lzma

import pytest
import torch
from made_questions import Documents, Question, read_made, with_made_questions

SENTENCES = [
    "Plain words about many things.",
    "The halibut swims in cold water near the bottom of the sea.",
    "A trawler catches it in winter, when prices are high.",
    "It is sold in Bergen.",
]
OTHER = ["Plain words about other things.", "The water is cold in winter."]


def record(title, sentences, id="1"):
    half = len(sentences) // 2
    below = {"title": "Below", "sentences": sentences[half:], "sections": []}
    part = {"title": title, "sentences": sentences[:half], "sections": [below]}
    return {"id": id, "title": title, "sections": [part], "queries": []}


def made(*questions, title="Fish", first=SENTENCES[0]):
    return {"kind": "papers", "title": title, "first": first[:80], "questions": list(questions)}


@pytest.fixture
def records():
    return [record("Fish", SENTENCES), *(record(f"Other {i}", OTHER) for i in range(60))]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Where does the halibut swim?", True),
        ("What is cold in winter?", False),  # as in other documents
        ("Why did it happen?", False),
        ("How does this halibut swim?", False),
        ("What does the paper say about the halibut?", False),
        ("What did the halibut do after the flood?", False),  # a word of the prompt's example
        ("Which halibut swims in cold water near the bottom of the sea?", False),  # copied
    ],
)
def test_clear_questions(records, text, expected):
    assert Documents(records).is_clear(Question(0, text, 1, 4)) is expected


def encode(texts):
    vectors = torch.tensor([[float("Bergen" in text or "bought" in text), 1.0] for text in texts])
    return torch.nn.functional.normalize(vectors, dim=1)


def test_questions_find_the_sentences_of_a_passage_that_answer_best(records):
    questions = [
        ["Where does the halibut swim?", 1, 4, 0],
        ["Where is trawler halibut bought?", 2, 4, 0],
        ["Where is Ann?", 1, 4, 0],
    ]
    [fish, *others] = with_made_questions(records, [made(*questions)], encode)
    assert fish["queries"] == [
        {"text": "Where does the halibut swim?", "sentence_ids": [1]},
        {"text": "Where is trawler halibut bought?", "sentence_ids": [2]},
    ]
    assert not any(other["queries"] for other in others)


def test_a_second_sentence_that_is_nearly_as_good_is_found():
    sentences = ["Words.", "A halibut swims.", "A halibut eats.", "Herring sleep."]
    records = [record("Fish", sentences), record("Other", OTHER)]
    line = made(["What does a halibut do?", 0, 4, 0], first="Words.")
    [fish, _] = with_made_questions(records, [line], lambda texts: torch.ones(len(texts), 1))
    assert fish["queries"] == [{"text": "What does a halibut do?", "sentence_ids": [1, 2]}]


def test_documents_with_the_same_beginning_are_told_apart():
    texts = ("Eels eat.", "Halibut swim.")
    records = [record("Fish", ["Words.", text], str(i)) for i, text in enumerate(texts)]
    line = made(["What do halibut do?", 1, 2, 0], first="Words.")
    for one, expected in [(line, 1), (line | {"id": "0"}, 0)]:
        [found] = Documents(records).matching(one)
        assert found.document == expected
    assert not Documents(records).matching(made(title="None"))


def test_files_of_questions_are_grouped_by_kind(tmp_path):
    lines = [json.dumps({"kind": kind, "questions": []}) + "\n" for kind in ("peps", "papers")]
    (tmp_path / "a.jsonl.xz").write_bytes(lzma.compress("".join(lines).encode()))
    (tmp_path / "b.jsonl").write_text(lines[0])
    found = read_made([tmp_path / "a.jsonl.xz", tmp_path / "b.jsonl"])
    assert {kind: len(lines) for kind, lines in found.items()} == {"peps": 2, "papers": 1}
