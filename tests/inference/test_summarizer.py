import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import (
    AutoTokenizer,
    BertConfig,
    BertModel,
    PreTrainedTokenizerFast,
    T5Config,
    T5ForConditionalGeneration,
)

from foveate import summarize
from foveate.detectors import given_keywords, tfidf
from foveate.inference import Summarizer
from foveate.models.fovea import FoveaForConditionalGeneration
from foveate.models.hdt import HDTConfig, HDTForConditionalGeneration
from foveate.models.speed_ups import restore, speed_up
from foveate.models.speed_ups.t5 import RelativeT5Attention
from foveate.models.vcc import VccT5ForConditionalGeneration
from foveate.preprocessing import HDTProcessor, TextProcessor, VCCProcessor
from tests.led import bpe, led

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
    assert summary == summarize(sea, words=12, model=Summarizer.from_pretrained(checkpoint))


def test_the_model_reads_its_prefix_the_query_and_the_document(sea, checkpoint, monkeypatch):
    summarizer = Summarizer.from_pretrained(checkpoint)
    seen = {}
    monkeypatch.setattr(summarizer.model, "generate", lambda **batch: seen.update(batch) or [[2]])
    summarizer.summarize(sea, query="which cod")
    text = summarizer.processor.text(sea, "which cod")
    expected = summarizer.processor.tokenizer(text)["input_ids"]
    assert seen["input_ids"][0].tolist() == expected
    lines = text.split("\n")
    assert lines[:3] == ["summarize : which cod", "Fish of the sea", "Introduction"]
    assert lines[-1] == "Trawlers drag a net behind them. Diesel is dear. The harbour is small."


def test_what_the_model_does_not_read_is_said(sea, checkpoint):
    summarizer = Summarizer.from_pretrained(checkpoint)
    assert summarizer.processor.max_length is None
    summarizer.processor.max_length = 32
    with pytest.warns(UserWarning, match="a document has more than 32 tokens: only the first 32"):
        summarizer.summarize(sea, words=5)


def test_what_can_be_sped_up_is(sea, checkpoint):
    writer = Summarizer.from_pretrained(checkpoint)
    attention = writer.model.encoder.block[0].layer[0].SelfAttention
    assert type(attention) is RelativeT5Attention
    written = writer.summarize(sea, words=12)
    restore(writer.model)
    assert writer.summarize(sea, words=12) == written


def test_an_encoder_cannot_write(tmp_path):
    config = BertConfig(
        vocab_size=9, hidden_size=8, num_hidden_layers=1, num_attention_heads=1, intermediate_size=8
    )
    BertModel(config).save_pretrained(tmp_path)
    with pytest.raises(ValueError, match=r"is a bert model.*name a sequence-to-sequence model"):
        Summarizer.from_pretrained(tmp_path)


def test_a_folder_without_weights(tmp_path):
    T5Config().save_pretrained(tmp_path)
    with pytest.raises(OSError, match=r"no file named model\.safetensors"):
        Summarizer.from_pretrained(tmp_path)


def test_a_model_writes_in_the_dtype_asked_for(checkpoint):
    assert Summarizer.from_pretrained(checkpoint).model.dtype == torch.float32
    assert Summarizer.from_pretrained(checkpoint, dtype="bfloat16").model.dtype == torch.bfloat16
    with pytest.raises(ValueError, match="dtype must be float32, bfloat16 or float16, got int8"):
        Summarizer.from_pretrained(checkpoint, dtype="int8")


def test_fovea_writes_the_summary(sea, checkpoint, tmp_path):
    FoveaForConditionalGeneration.from_pretrained(checkpoint).save_pretrained(tmp_path)
    AutoTokenizer.from_pretrained(checkpoint).save_pretrained(tmp_path)
    writer = Summarizer.from_pretrained(tmp_path)
    assert isinstance(writer.model, FoveaForConditionalGeneration)
    assert writer.processor.max_length is None
    summary = summarize(sea, words=12, model=tmp_path)
    assert set(summary.text.split()) <= {*WORDS, "<unk>"}
    assert summary == summarize(sea, words=12, model=writer)


def test_hdt_reads_the_tree_and_writes_the_summary(sea, checkpoint, tmp_path):
    tokenizer = AutoTokenizer.from_pretrained(checkpoint)
    anchors = {"doc_token": "<pad>", "sec_token": "</s>", "sent_token": "<unk>"}
    HDTProcessor(tokenizer, **anchors).save_pretrained(tmp_path)
    config = HDTConfig(
        vocab_size=len(tokenizer),
        d_model=16,
        d_kv=8,
        d_ff=32,
        num_layers=1,
        num_heads=2,
        num_decoder_layers=1,
        decode_anchors="sentence",
    )
    HDTForConditionalGeneration(config).save_pretrained(tmp_path)
    writer = Summarizer.from_pretrained(tmp_path)
    assert isinstance(writer.model, HDTForConditionalGeneration)
    summary = summarize(sea, words=12, query="cod", model=tmp_path)
    assert set(summary.text.split()) <= {*WORDS, "<unk>"}


def test_a_sped_up_t5_writes_the_same(sea, checkpoint):
    model = T5ForConditionalGeneration.from_pretrained(checkpoint)
    processor = TextProcessor(AutoTokenizer.from_pretrained(checkpoint))
    expected = Summarizer(model, processor).summarize(sea, words=20)
    assert Summarizer(speed_up(model), processor).summarize(sea, words=20) == expected


@pytest.mark.parametrize("kind", [T5ForConditionalGeneration, FoveaForConditionalGeneration])
def test_what_else_a_tokenizer_counts_is_not_read(sea, checkpoint, kind):
    model = kind.from_pretrained(checkpoint)
    processor = TextProcessor(AutoTokenizer.from_pretrained(checkpoint))
    expected = Summarizer(model, processor).summarize(sea, words=9)
    names = ["input_ids", "token_type_ids", "attention_mask"]
    tokenizer = AutoTokenizer.from_pretrained(checkpoint, model_input_names=names)
    assert "token_type_ids" in tokenizer("cod")
    assert Summarizer(model, TextProcessor(tokenizer)).summarize(sea, words=9) == expected


@pytest.fixture(scope="module")
def led_checkpoint(tmp_path_factory) -> str:
    tokenizer = bpe(["The cod is a fish of cold seas. It eats herring."])
    folder = str(tmp_path_factory.mktemp("led"))
    led(len(tokenizer)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def test_led_reads_keywords_first_and_makes_them_global(sea, led_checkpoint, monkeypatch):
    detector = given_keywords(["cod", "deep sea"])
    summarizer = Summarizer.from_pretrained(led_checkpoint, detector=detector, num_keywords=2)
    seen = {}
    monkeypatch.setattr(summarizer.model, "generate", lambda **batch: seen.update(batch) or [[2]])
    summarizer.summarize(sea, words=9, query="which cod")
    text = summarizer.processor.tokenizer.decode(seen["input_ids"][0], skip_special_tokens=True)
    assert text.startswith("cod deep sea which cod\nFish of the sea\n")
    mask = seen["global_attention_mask"][0].tolist()
    count = len(
        summarizer.processor.tokenizer("cod deep sea", add_special_tokens=False)["input_ids"]
    )
    assert mask == [1] * (1 + count) + [0] * (len(mask) - 1 - count)


def test_led_without_keywords_has_its_task_token_global(sea, led_checkpoint, monkeypatch):
    summarizer = Summarizer.from_pretrained(led_checkpoint)
    seen = {}
    monkeypatch.setattr(summarizer.model, "generate", lambda **batch: seen.update(batch) or [[2]])
    summarizer.summarize(sea, words=9)
    assert seen["global_attention_mask"].sum().item() == 1


def test_a_summary_is_written_by_led_with_keywords(sea, led_checkpoint):
    steered = Summarizer.from_pretrained(led_checkpoint, detector=tfidf, num_keywords=5)
    summary = summarize(sea, words=9, model=steered)
    assert summary.sentences == ()
    assert summary == summarize(sea, words=9, model=steered)


def test_what_led_does_not_read_is_said(sea, led_checkpoint):
    summarizer = Summarizer.from_pretrained(led_checkpoint)
    assert summarizer.processor.max_length == 512
    summarizer.processor.max_length = 32
    with pytest.warns(UserWarning, match="a document has more than 32 tokens: only the first 32"):
        summarizer.summarize(sea, words=5)


def test_only_a_model_with_global_tokens_is_steered(checkpoint):
    with pytest.raises(ValueError, match="a t5 model has no global tokens for keywords"):
        Summarizer.from_pretrained(checkpoint, num_keywords=5)


def test_vcc_reads_its_prompt_as_vip_tokens(sea, checkpoint, tmp_path, monkeypatch):
    VccT5ForConditionalGeneration.from_pretrained(checkpoint).save_pretrained(tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(checkpoint)
    VCCProcessor(tokenizer).save_pretrained(tmp_path)
    summarizer = Summarizer.from_pretrained(tmp_path)
    assert isinstance(summarizer.model, VccT5ForConditionalGeneration)
    assert set(summarizer.summarize(sea, words=12).split()) <= {*WORDS, "<unk>"}
    seen = {}
    monkeypatch.setattr(summarizer.model, "generate", lambda **batch: seen.update(batch) or [[2]])
    for query, prompt in {None: "summarize:", "which cod": "question: which cod context:"}.items():
        summarizer.summarize(sea, query=query)
        vips = seen["input_ids"][0][seen["vip_mask"][0] == 1]
        assert vips.tolist() == tokenizer(prompt, add_special_tokens=False)["input_ids"]
