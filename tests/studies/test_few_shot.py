"""EGAD's few-shot protocol."""

import json

import few_shot
from foveate.data import Corpus
from tests.conftest import random_record
from tests.training.conftest import QUICK, checkpoint


def written(path, number):
    lines = [{**random_record(i), "id": str(i), "references": ["the whale"]} for i in range(number)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_draws_repeat_and_differ(tmp_path):
    examples = Corpus(written(tmp_path / "all.jsonl", 30))

    def drawn(seed, number=10):
        path = few_shot.draw_examples(examples, number, seed, tmp_path / "some.jsonl")
        return [example.id for example in Corpus(path)]

    assert drawn(0) == drawn(0) != drawn(1)
    assert len(set(drawn(0))) == 10
    assert len(drawn(0, 100)) == 30


def test_every_draw_is_trained_and_scored(tmp_path, bert_tokenizer, monkeypatch, capsys):
    checkpoint("led", tmp_path / "led", bert_tokenizer)
    files = [str(written(tmp_path / f"{part}.jsonl", 4)) for part in ("train", "dev", "test")]
    entries = {"model.checkpoint": tmp_path / "led", "training.gradient_accumulation_steps": 1}
    entries |= {f"training.{entry}": value for entry, value in QUICK.items()}
    settings = [word for entry in entries.items() for word in ("--set", "=".join(map(str, entry)))]
    words = ["few_shot.py", "egad", *files, *settings, "--numbers", "2", "--draws", "2"]
    monkeypatch.setattr("sys.argv", [*words, "--beams", "1"])
    few_shot.main()
    printed = capsys.readouterr().out
    assert "| 2 " in printed
    assert "rouge" in printed.lower()
    assert "±" in printed
