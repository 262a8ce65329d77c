"""Real tasks: their examples, MiniLM as a RoBERTa, and a run."""

import gzip
import json
import lzma
from argparse import Namespace

import pytest
import torch
from transformers import BertConfig, BertModel

import real_tasks
from foveate.data import Corpus, read_benchmark
from foveate.models.vcc import VccRobertaModel
from tests.numerics import relative_error

WORDS = "The cod swims far in cold seas and eats small fish at night ."


def meeting(number):
    turns = [{"speaker": "A", "text": WORDS} for _ in range(6)]
    topics = [["0", "1"], ["2", "5"], ["5", "5"]]
    return {
        "id": str(number),
        "domain": "academic",
        "topics": [{"topic": f"T{i}", "relevant_text_span": [one]} for i, one in enumerate(topics)],
        "turns": turns,
        "queries": [{"kind": "general", "query": "Who swims?", "answer": "The cod."}],
    }


@pytest.fixture
def options(tmp_path, bert_tokenizer):
    """The options of a tiny run, on made-up data in the form of the real ones."""
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 6}
    config = BertConfig(vocab_size=len(bert_tokenizer), num_attention_heads=2, **sizes)
    BertModel(config).save_pretrained(tmp_path / "bert")
    bert_tokenizer.save_pretrained(tmp_path / "bert")
    data, folder = tmp_path / "data", tmp_path / "folder"
    for path in (data / "qa", data / "qmsum", folder):
        path.mkdir(parents=True)
    for part in ("train", "val"):
        with gzip.open(data / "qmsum" / f"{part}.jsonl.gz", "wt") as file:
            file.writelines(json.dumps(meeting(i)) + "\n" for i in range(3))
    context = f"{WORDS} " * 2000 + "Only here a whale sleeps. " + f"{WORDS} " * 2000
    answer = {"text": "a whale", "answer_start": context.index("a whale")}
    unanswered = {"question": "Why?", "answers": []}
    asked = [{"question": "Who sleeps?", "answers": [answer]}, unanswered]
    articles = [{"paragraphs": [{"context": WORDS, "qas": []}, {"context": context, "qas": asked}]}]
    for name in ("squad", "covid"):
        with lzma.open(data / "qa" / f"{name}.json.xz", "wt") as file:
            json.dump({"data": articles * 4}, file)
    return Namespace(
        data=data,
        folder=folder,
        minilm=tmp_path / "bert",
        max_length=96,
        size=16,
        steps=1,
        limit=1,
    )


def test_data_and_weights(options):
    real_tasks.prepare(options)
    for part, number in (("train", 6), ("dev", 2)):
        found = list(Corpus(options.folder / f"vcc-{part}.jsonl"))
        assert len(found) == number
        for one in found:
            assert one.references == ("a whale",)
            assert "a whale sleeps" in one.document.text
            assert len(one.document.text) <= real_tasks.CUT_OUT
    bert = BertModel.from_pretrained(options.minilm).eval()
    folder = options.folder / "minilm"
    roberta = VccRobertaModel.from_pretrained(folder, num_segment_layers=6).eval()
    ids = torch.randint(1000, 2000, (1, 40))
    assert relative_error(roberta(ids)[0], bert(ids)[0]) < 1e-5


def test_the_beginning_of_a_meeting_is_one(options, tmp_path):
    cut = real_tasks.beginning(meeting(0), 4 * len(WORDS.split()))
    assert len(cut["turns"]) == 4
    (tmp_path / "cut.jsonl").write_text(json.dumps(cut))
    [example] = read_benchmark("qmsum", tmp_path / "cut.jsonl")
    assert [section.title for section in example.document.sections] == ["T0", "T1"]


@pytest.mark.filterwarnings("ignore:a document has more than")
@pytest.mark.parametrize("task", ["vcc", "hdt-ed"])
def test_a_run_is_scored(task, options):
    real_tasks.prepare(options)
    [*_, arm] = real_tasks.arms(options.size, options.max_length)[task]
    real_tasks.run(options, task, arm, 0)
    [file] = options.folder.glob("*.result")
    [table] = real_tasks.tables({"runs": [json.loads(file.read_text())]}).values()
    assert arm in table
    assert ("F1" in table) == (task == "vcc")
