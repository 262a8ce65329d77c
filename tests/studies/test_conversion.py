"""The study of a published encoder that is converted to VCC."""

import pytest
import torch

import conversion
from benchmarks.report import write_tables
from conversion import ALONE, ARMS, DENSE, Arm, Asked, cut, sentence_vectors, table
from foveate.models.vcc import VccBertConfig, VccBertModel

SENTENCES = [[10 + i] * (3 + i % 4) for i in range(40)]
ASKED = [
    Asked([1, 2, 3, 4], {7}, 0),
    Asked([1, 5, 4], {8, 39}, 0),
    Asked([1, 6, 6, 6, 6, 4], {39}, 1),
]


@pytest.mark.parametrize("number", range(3))
@pytest.mark.parametrize("length", [20, 60, 150])
def test_texts_are_full_and_hold_the_answer(number, length):
    case = cut(ASKED, number, SENTENCES, length)
    size = max(map(len, (case.question, case.other))) + sum(map(len, case.sentences))
    assert length - 6 <= size <= length
    first = case.numbers[0]
    assert case.numbers == [(first + i) % 40 for i in range(len(case.numbers))]
    marked = {n for n, mark in zip(case.numbers, case.answers.tolist(), strict=True) if mark}
    assert min(ASKED[number].answers) in marked <= ASKED[number].answers
    assert case.other != case.question


def test_answers_stand_anywhere():
    asked = [Asked([1, 2], {20}, i % 2) for i in range(40)]
    places = [int(cut(asked, i, SENTENCES, 90).answers.nonzero()) for i in range(40)]
    assert min(places) <= 2
    assert max(places) >= 15


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 6, "num_attention_heads": 2}
    return VccBertModel(VccBertConfig(vocab_size=60, intermediate_size=32, **sizes)).eval()


def test_arms_differ_from_dense_attention_where_they_should(model):
    case = cut(ASKED, 0, SENTENCES, 150)
    dense = sentence_vectors(model, ARMS[DENSE], case)
    assert dense.norm(dim=1).allclose(torch.ones(len(case.sentences)))
    torch.testing.assert_close(sentence_vectors(model, Arm(), case), dense)
    for arm in (Arm(count=2), Arm(segment=30), Arm(count=2, is_control=True)):
        assert not sentence_vectors(model, arm, case).allclose(dense, atol=1e-3)


def test_tables_say_what_is_lost(tmp_path):
    names = [ALONE, *ARMS]
    values = {name: [[1.0, 1.0], [0.5, 1.0]] for name in names}
    values["VCC, 8 of 16"] = [[0.5, 0.2], [0.0, 0.4]]
    found = table({"setting": {"documents": [0, 1]}, "lengths": {"512": values, "1024": values}})
    row = next(line for line in found.splitlines() if line.startswith("| VCC, 8 of 16  "))
    cells = [cell.strip() for cell in row.split("|")[2:-1]]
    assert cells == ["0, 25", "0, 25", "0.30", "-50 (-50 to -50)"]
    page = tmp_path / "page.md"
    page.write_text(conversion.PAGE.read_text(encoding="utf-8"))
    write_tables(page, {"conversion": found})
