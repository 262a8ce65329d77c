"""Answers and summaries of language models, written by a server that says what it is told."""

import pytest

pytest.importorskip("openai", reason="servers need the extra `llm`")

from foveate import LLM, Document, Summary, context, summarize, write_answer, write_summary
from foveate.tasks.citations import check
from tests.llm import events, serving_llm
from tests.t5 import save_t5

QUESTION = "What do cod eat?"


@pytest.fixture
def fish():
    return Document.from_sections(
        "Fish",
        [
            ("Cod", "Cod swim in cold seas. They eat small herring. Nets catch them."),
            ("Eel", "Eels are long. Nobody has seen them breed."),
        ],
    )


@pytest.fixture
def answer(fish):
    """Have a server say something as the answer to the question."""

    def answer(*script, timeout=10):
        with serving_llm(*script) as (url, log):
            llm = LLM(url, "small", timeout)
            return write_answer(QUESTION, context(QUESTION, fish), llm=llm), log

    return answer


def test_sentences_cite_sentences(answer, fish):
    text = "Cod eat small herring [2]. They are caught with nets. [3]"
    written, log = answer(text)
    assert written.text == "".join(one.text for one in written.sentences) == text
    assert [one.numbers for one in written.sentences] == [(2,), (3,)]
    assert all(one.is_supported for one in written.sentences)
    assert written.spans == {2: fish.spans()[1], 3: fish.spans()[2]}
    [request] = log.requests
    assert request["model"] == "small"
    system, user = (message["content"] for message in request["messages"])
    assert "Not in the document" in system
    assert user.startswith(context(QUESTION, fish).text)
    assert user.endswith(QUESTION)


def test_what_is_doubtful_is_marked(answer):
    text = "Whales sing at night [4]. Cod eat herring. Cod eat small herring [2][99]."
    written, _ = answer(text)
    weak, uncited, missing = written.sentences
    assert (weak.numbers, weak.missing) == ((4,), ())
    assert (uncited.numbers, uncited.support) == ((), 0)
    assert (missing.numbers, missing.missing) == ((2,), (99,))
    assert missing.support > 0.5
    assert not any(one.is_supported for one in written.sentences)
    assert set(written.spans) == {2, 4}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Cod swim. [1] They eat herring. [2]", [(1,), (2,)]),
        ("Cod swim [1, 3]. They eat herring [1-3].", [(1, 3), (1, 2, 3)]),
        ("- Cod swim [1].\n- They eat herring, e.g. small ones [2][3].", [(1,), (2, 3)]),
        ("鳕鱼在冷海中游泳[1]。它们吃小鲱鱼【2】。", [(1,), (2,)]),
        ("Cod are 2.5 m long.[1][2]\n\nFine.", [(1, 2), ()]),
    ],
)
def test_forms_of_citations(fish, small_encoder, text, expected):
    written = check(text, dict(enumerate(fish.spans(), 1)), small_encoder)
    assert [one.numbers for one in written.sentences] == expected
    assert "".join(one.text for one in written.sentences) == text


@pytest.mark.parametrize("text", ["Not in the document.", "**Not in the documents**", "", " \n"])
def test_an_answer_that_is_not_there(answer, text):
    written, _ = answer(text)
    assert not written.is_found
    assert written.text
    assert not written.spans


def test_thoughts_are_left_out(answer):
    written, _ = answer("<think>Cod? [1]\n</think>\n\nCod eat <b>herring</b> [2].")
    assert written.text == "Cod eat <b>herring</b> [2]."
    assert not answer("<think>I never come to an end")[0].is_found


@pytest.mark.parametrize(
    ("said", "error"),
    [
        (404, "refuses: Error code: 404 - no such model"),
        (429, "refuses: Error code: 429"),
        (500, "refuses: Error code: 500"),
        (None, "was silent for 0.3 seconds"),
        ((events("Cod eat")[:300], None), "was silent for 0.3 seconds"),
        (b"<html>Welcome</html>", "does not answer as OpenAI's API does"),
        (b"data: {garbled\n\n", "does not answer as OpenAI's API does"),
        (b'data: {"choices": 3}\n\n', "does not answer as OpenAI's API does"),
        (b"data: [1, 2]\n\n", "does not answer as OpenAI's API does"),
        (b'data: {"error": {"message": "out of memory"}}\n\n', "out of memory"),
        (b"", "it sent no text"),
    ],
)
def test_servers_that_fail(answer, said, error):
    with pytest.raises(ConnectionError) as raised:
        answer(said, timeout=0.3)
    assert error in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_server_that_is_not_there(fish):
    prompt = context(QUESTION, fish)
    for url in ("http://127.0.0.1:9/v1", "localhost:11434", "http://", "nonsense"):
        with pytest.raises(ConnectionError, match=r"no answer from|does not answer"):
            write_answer(QUESTION, prompt, llm=LLM(url, "small"))


def test_the_key_is_sent_to_the_server_that_is_named(answer, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "of another server")
    assert answer("Fine [1].")[1].keys == ["Bearer none"]
    monkeypatch.setenv("FOVEATE_LLM_KEY", "secret")
    assert answer("Fine [1].")[1].keys == ["Bearer secret"]


def test_a_text_that_is_cut_off(answer):
    with pytest.warns(UserWarning, match="its end is missing"):
        written, _ = answer(events("Cod eat small herring [2]. They", "length"))
    assert written.text.endswith("They")


def test_a_summary(fish):
    with serving_llm("Cod swim in cold seas [1].") as (url, log):
        [summary] = write_summary(fish, llm=LLM(url, "small"), words=30)
        [about] = write_summary(fish, llm=LLM(url, "small"), query="eels")
    assert (summary.title, summary.spans) == ("", {1: fish.spans()[0]})
    assert about.is_found
    first, second = log.requests
    assert "at most 30 words" in first["messages"][0]["content"]
    assert "[5] Nobody has seen them breed." in first["messages"][1]["content"]
    assert "at most 5 sentences" in second["messages"][0]["content"]
    assert second["messages"][1]["content"].endswith("what is said about: eels")


def test_books_are_summarized_section_by_section():
    said = " ".join(["The cod is a fish of cold seas and eats herring."] * 30)
    book = Document.from_sections(
        "Sea", [("All", "", [("One", said), ("Two", said), ("Three", said)])]
    )
    with serving_llm("Cod eat herring [44].", 500) as (url, _):
        parts = write_summary(book, llm=LLM(url, "small"), tokens=100)
        first = next(parts)  # is not lost when the next one fails
        assert (first.title, first.sentences[0].missing) == ("One", (44,))
        with pytest.raises(ConnectionError):
            next(parts)
    with serving_llm("Cod eat herring [60].") as (url, log):  # which is the section's last
        _, second, _ = write_summary(book, llm=LLM(url, "small"), tokens=100)
    assert second.spans[60].path == ("All", "Two")
    for title, request in zip(("One", "Two", "Three"), log.requests, strict=True):
        assert f"### {title}" in request["messages"][1]["content"]
        assert request["messages"][1]["content"].count("###") == 1


def test_sentences_of_a_checkpoint_that_writes_are_traced(tmp_path, fish):
    save_t5(tmp_path, " ".join(one.text for one in fish.sentences()))
    summary = summarize(fish, model=tmp_path, words=10)
    assert isinstance(summary, Summary)
    assert summary.written is not None
    assert summary.written.text == summary.text.strip()
    for one in summary.written.sentences:
        assert 1 <= len(one.numbers) <= 3
        assert not one.missing
