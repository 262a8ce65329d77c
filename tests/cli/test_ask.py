"""`foveate ask` as a user meets it."""

import json

import pytest
import torch

from foveate.inference import Answerer
from tests.cli.conftest import FISH
from tests.t5 import save_t5


@pytest.fixture
def ask(foveate, fish):
    """Ask a file; give exit code, standard output and standard error."""
    return lambda question, *options: foveate("ask", question, fish, *options)


def test_passages_are_shown_with_their_places(ask):
    code, output, _ = ask("who catches cod, and with what?", "--top-k", "1")
    assert code == 0
    assert "They eat small fish. **Fishermen catch them with nets.**\n      line 5 · Cod" in output


def test_json_points_into_the_file(ask):
    code, output, _ = ask("how are cod caught?", "--json")
    found = json.loads(output)
    assert code == 0
    assert (found["question"], found["answer"]) == ("how are cod caught?", None)
    assert len(found["passages"]) == 2
    for passage in found["passages"]:
        assert FISH[passage["start"] : passage["end"]] == passage["text"]


def test_a_t5_answers_in_the_dtype_that_is_asked_for(ask, tmp_path, monkeypatch):
    save_t5(tmp_path / "t5", FISH)
    seen, answer = [], Answerer.answer

    def spy(self, query, document, **options):
        seen.append(self.model.dtype)
        return answer(self, query, document, **options)

    monkeypatch.setattr(Answerer, "answer", spy)
    question = ("how are cod caught?", "--model", tmp_path / "t5", "--json")
    code, output, _ = ask(*question, "--dtype", "bfloat16")
    assert code == 0
    assert isinstance(json.loads(output)["answer"], str)
    assert ask(*question)[0] == 0
    assert seen == [torch.bfloat16, torch.float32]
    code, _, error = ask(*question, "--dtype", "int8")
    assert code == 2
    assert "dtype must be float32, bfloat16 or float16, got int8" in error


def test_mistakes_are_one_sentence(ask):
    code, output, error = ask(" ")
    assert (code, output, error) == (
        2,
        "",
        "foveate: the query is empty: say what to look for\n",
    )


def test_help_shows_examples(foveate):
    code, output, _ = foveate("ask", "--help")
    assert code == 0
    assert 'foveate ask "who pays for delays?" contract.docx' in output


def test_the_question_comes_first(foveate, fish):
    code, output, error = foveate("ask", fish, "how are cod caught?")
    assert (code, output) == (2, "")
    assert error == f"foveate: the question comes first: foveate ask 'how are cod caught?' {fish}\n"


def test_says_if_the_answer_is_probably_not_in_the_document(foveate, fish):
    _, output, _ = foveate("ask", "what is the capital of Australia?", fish)
    assert output.startswith("probably not in this document\n")
    _, output, _ = foveate("ask", "what is the capital of Australia?", fish, "--json")
    assert [passage["likely"] for passage in json.loads(output)["passages"]] == [False, False]
    _, output, _ = foveate("ask", "what do cod eat?", fish, "--json")
    assert json.loads(output)["passages"][0]["likely"] is True
