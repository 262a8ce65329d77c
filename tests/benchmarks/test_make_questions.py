import json
import sys

import make_questions
import pytest
from made_questions import read_made
from make_questions import Ranking, Writer, passages, questions, without_queries
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

WORDS = "Long words about many different things fill up the sentences of every single passage."


def section(title, sentences, below=()):
    return {"title": title, "sentences": list(sentences), "sections": list(below)}


def record(id, name, queries=()):
    about = [f"The {name} swims in cold water.", *[WORDS] * 4]
    below = section("Below", [f"A trawler catches the {name} in winter.", *[WORDS] * 4])
    parts = [section("Fish", about, [below]), section("Short", ["Too short."])]
    return {"id": id, "title": "Fish", "sections": parts, "queries": list(queries)}


def read(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture
def model(tmp_path):
    """A tiny random model with a template of chats."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel()
    special = ["<end>", "<system>", "<user>", "<assistant>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(special_tokens=special, initial_alphabet=alphabet, vocab_size=300)
    tokenizer.train_from_iterator([WORDS], trainer)
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<end>")
    fast.chat_template = (
        "{% for message in messages %}<{{ message.role }}>{{ message.content }}<end>{% endfor %}"
        "{% if add_generation_prompt %}<assistant>{% endif %}"
    )
    fast.save_pretrained(tmp_path / "tiny")
    config = Qwen2Config(
        vocab_size=len(fast) + 8,  # the family's tokenizer adds some
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
        eos_token_id=fast.eos_token_id,
    )
    Qwen2ForCausalLM(config).save_pretrained(tmp_path / "tiny")
    return tmp_path / "tiny"


def test_a_model_is_asked_about_every_passage_once(tmp_path, model, monkeypatch, capsys):
    corpus, output = tmp_path / "manuals.jsonl", tmp_path / "made.jsonl"
    records = [
        record("1", "cod"),
        record("1", "cod"),
        record("2", "eel"),
        record("3", "ray", ["?"]),
    ]
    corpus.write_text("".join(json.dumps(one) + "\n" for one in records))
    arguments = [
        str(model),
        str(corpus),
        "--output",
        str(output),
        "--batch",
        "3",
        "--device",
        "cpu",
    ]
    monkeypatch.setattr(make_questions, "NEW_TOKENS", 4)
    monkeypatch.setattr(sys, "argv", ["make_questions.py", *arguments])
    make_questions.main()
    lines = read(output)
    assert sorted((line["id"], *line["passage"]) for line in lines) == [
        ("1", 0, 5),
        ("1", 5, 10),
        ("2", 0, 5),
        ("2", 5, 10),
    ]
    assert {(line["kind"], line["model"]) for line in lines} == {("manuals", "tiny")}
    assert lines[0]["settings"]["temperature"] == make_questions.SETTINGS["temperature"]
    make_questions.main()
    assert read(output) == lines
    assert "2 documents, 0 passages to do" in capsys.readouterr().out
    output.unlink()
    monkeypatch.setattr(sys, "argv", [*sys.argv, "--seconds", "0", "--passages", "1"])
    make_questions.main()
    assert "2 documents, 2 passages to do" in capsys.readouterr().out
    assert not output.exists()


def test_clear_questions_are_kept(tmp_path):
    path = tmp_path / "made.jsonl"
    writer = Writer(path, [record("1", "cod"), record("2", "eel")], 9, 0, {"kind": "manuals"})
    answer = "1. When does a trawler catch the cod?\n2. Why does this happen to it?\nNothing."
    writer.run(lambda passages: [answer] * len(passages), 2)
    kept = {(line["id"], *line["passage"]): line["questions"] for line in read(path)}
    question = "When does a trawler catch the cod?"
    assert kept == {
        ("1", 0, 5): [[question, 0, 5, 1]],
        ("1", 5, 10): [[question, 5, 10, 0]],
        ("2", 0, 5): [],
        ("2", 5, 10): [],
    }
    assert len(read_made([path])["manuals"]) == 4


def test_documents_without_queries_are_read_once():
    records = [record("1", "cod"), record("2", "eel", ["?"]), record("1", "cod")]
    assert [one["id"] for one in without_queries(iter(records))] == ["1"]


def test_passages_are_parts_of_sections():
    sentences = ["word " * 40] * 7
    nested = [section("A", sentences, [section("B", sentences[:1]), section("C", sentences[:2])])]
    assert passages({"sections": nested}) == [(0, 3), (3, 6), (8, 10)]
    assert passages({"sections": [section("A", ["word " * 300])]}) == []


def test_the_rank_of_a_passage():
    ranking = Ranking({(0, 1): "Cod swim.", (1, 2): "Cod eat herring.", (2, 3): "Eels."})
    assert [ranking.rank("Do cod eat?", (i, i + 1)) for i in range(3)] == [1, 0, 2]


def test_questions_of_an_answer():
    answer = (
        "Here are three questions:\n1. How do cod find their food?\n\n- Why?\n"
        "2) Where do eels go in winter?\nHow do cod find their food?\nThey swim."
    )
    assert questions(answer) == ["How do cod find their food?", "Where do eels go in winter?"]
