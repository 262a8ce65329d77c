import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import (
    BertConfig,
    BertModel,
    PreTrainedTokenizerFast,
    T5Config,
    T5ForConditionalGeneration,
)

from foveate.tasks.generate import Generator
from foveate.tasks.summarize import summarize

WORDS = ["fish", "sea", "cod", "eel", "boats", "swim", ".", "summarize", ":", "which"]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory) -> str:
    """A T5 that has learned nothing, and knows ten words."""
    vocabulary = {word: i for i, word in enumerate(["<pad>", "</s>", "<unk>", *WORDS])}
    words = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    words.post_processor = processors.TemplateProcessing(
        single="$A </s>", special_tokens=[("</s>", 1)]
    )
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=words, pad_token="<pad>", eos_token="</s>", unk_token="<unk>"
    )
    torch.manual_seed(0)
    config = T5Config(
        vocab_size=len(vocabulary),
        d_model=16,
        d_kv=8,
        d_ff=32,
        num_layers=1,
        num_heads=2,
        decoder_start_token_id=0,
        task_specific_params={"summarization": {"prefix": "summarize : "}},
    )
    folder = str(tmp_path_factory.mktemp("t5"))
    T5ForConditionalGeneration(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def test_a_model_writes_the_summary(sea, checkpoint):
    summary = summarize(sea, words=12, model=checkpoint)
    assert summary.sentences == ()
    assert set(summary.text.split()) <= {*WORDS, "<unk>"}
    assert summary == summarize(sea, words=12, model=Generator.from_pretrained(checkpoint))


def test_the_model_reads_its_prefix_the_query_and_the_document(sea, checkpoint, monkeypatch):
    generator = Generator.from_pretrained(checkpoint)
    read = []
    monkeypatch.setattr(generator, "_read", lambda text: read.append(text) or _stop())
    with pytest.raises(StopIteration):
        generator.summarize(sea, query="which cod")
    lines = read[0].split("\n")
    assert lines[:3] == ["summarize : which cod", "Fish of the sea", "Introduction"]
    assert lines[-1] == "Trawlers drag a net behind them. Diesel is dear. The harbour is small."


def _stop():
    raise StopIteration


def test_what_the_model_does_not_read_is_said(sea, checkpoint):
    generator = Generator.from_pretrained(checkpoint)
    assert generator.longest_input is None
    generator.tokenizer.model_max_length = 32
    with pytest.warns(UserWarning, match=r"the document has \d+ tokens, .* the first 32"):
        generator.summarize(sea, words=5)


def test_an_encoder_cannot_write(tmp_path):
    config = BertConfig(
        vocab_size=9, hidden_size=8, num_hidden_layers=1, num_attention_heads=1, intermediate_size=8
    )
    BertModel(config).save_pretrained(tmp_path)
    with pytest.raises(ValueError, match=r"is a bert model.*name a sequence-to-sequence model"):
        Generator.from_pretrained(tmp_path)


def test_a_folder_without_weights(tmp_path):
    T5Config().save_pretrained(tmp_path)
    with pytest.raises(OSError, match=r"no file named model\.safetensors"):
        Generator.from_pretrained(tmp_path)
