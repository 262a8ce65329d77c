"""HDT-ED writes from the folder that the published class saves, which names no first token."""

import json

import pytest
import torch
from transformers import AutoModelForSeq2SeqLM, GenerationConfig

from foveate import Document
from foveate.cli import main
from foveate.models.hdt import HDTConfig, HDTForConditionalGeneration
from foveate.preprocessing import HDTProcessor
from foveate.training.tokenizer import train_tokenizer
from tests.models.test_hdt_published import SIZES, published_config, save_published

FISH = Document.from_sections("Fish", [("Cod", "Cod swim. They eat."), ("Eel", "Eels hide.")])
WRITES = {"eos_token_id": 1, "pad_token_id": 0, "transformers_version": "4.38.0"}
"""What the published class writes to `generation_config.json`."""


@pytest.fixture(scope="module")
def tokenizer():
    return train_tokenizer([FISH], 900)


@pytest.fixture
def published(tmp_path, tokenizer):
    torch.manual_seed(0)
    sizes = SIZES | {"vocab_size": len(tokenizer), "num_decoder_layers": 2}
    HDTForConditionalGeneration(HDTConfig(**sizes)).save_pretrained(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(published_config(sizes)))
    (tmp_path / "generation_config.json").write_text(json.dumps(WRITES))
    tokenizer.save_pretrained(tmp_path)
    return tmp_path


@pytest.mark.parametrize("how", [{}, {"num_beams": 4}, {"do_sample": True}])
def test_texts_begin_as_in_published_pretraining(how, published, tokenizer):
    model = AutoModelForSeq2SeqLM.from_pretrained(published)
    inputs = HDTProcessor(tokenizer)(FISH)
    ids, parents = inputs["input_ids"], inputs["parent_ids"]
    begin = tokenizer.convert_tokens_to_ids("<s>")
    written = model.generate(ids, parent_ids=parents, max_new_tokens=5, **how)
    assert written[0, 0] == begin
    assert model.prepare_decoder_input_ids_from_labels(torch.tensor([[9, 8]])).tolist() == [
        [begin, 9]
    ]
    model.save_pretrained(published / "again")  # without a tokenizer
    again = AutoModelForSeq2SeqLM.from_pretrained(published / "again")
    assert again.generate(ids, parent_ids=parents, max_new_tokens=5)[0, 0] == begin
    other = GenerationConfig(decoder_start_token_id=7, max_new_tokens=5)
    assert again.generate(ids, parent_ids=parents, generation_config=other)[0, 0] == 7


@pytest.mark.parametrize("how", [{}, {"num_beams": 4}, {"do_sample": True}])
def test_without_a_tokenizer_texts_begin_with_padding(how, tmp_path):
    folder, _, inputs = save_published("hdt_encoder_decoder_12", tmp_path)
    model = AutoModelForSeq2SeqLM.from_pretrained(folder)
    written = model.generate(**inputs, max_new_tokens=5, **how)
    assert (written[:, 0] == 0).all()


def test_the_first_token_is_the_one_that_a_configuration_names():
    fields = published_config(SIZES | {"num_decoder_layers": 2})
    assert HDTConfig(**fields, bos_token_id=2).decoder_start_token_id == 2
    assert HDTConfig(**fields, bos_token_id=2, decoder_start_token_id=3).decoder_start_token_id == 3


@pytest.mark.parametrize("command", ["summarize", "evaluate"])
def test_the_commands_write(command, published, tmp_path, monkeypatch, capsys):
    paper, papers = tmp_path / "paper.md", tmp_path / "papers.jsonl"
    paper.write_text("# Fish\n\nCod swim. They eat.\n")
    record = {"text": paper.read_text(), "format": "markdown", "references": ["Cod swim."]}
    papers.write_text(json.dumps(record) + "\n")
    recipe = ["hdt-ed-summarization", "--set", "data.benchmark=''"]
    arguments = {"summarize": [paper], "evaluate": [*recipe, papers]}[command]
    words = ["foveate", command, *map(str, arguments), "--model", str(published), "--json"]
    monkeypatch.setattr("sys.argv", words)
    with pytest.raises(SystemExit) as stopped:
        main()
    output = capsys.readouterr()
    assert not stopped.value.code, output.err
    assert json.loads(output.out)
