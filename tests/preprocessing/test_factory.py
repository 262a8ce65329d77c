import pytest
from transformers import BertConfig, LEDConfig, LongformerConfig, RobertaConfig, T5Config
from transformers.tokenization_utils_base import VERY_LARGE_INTEGER

from foveate.models.hdt import HDTConfig
from foveate.models.vcc import VccT5Config
from foveate.preprocessing import (
    HDTProcessor,
    LEDProcessor,
    TextProcessor,
    VCCProcessor,
    load_processor,
    processor_for,
)


@pytest.mark.parametrize(
    ("config", "kind"),
    [
        (HDTConfig(), HDTProcessor),
        (LEDConfig(), LEDProcessor),
        (VccT5Config(), VCCProcessor),
        (T5Config(), TextProcessor),
    ],
)
def test_the_family_decides(tokenizer, config, kind):
    assert type(processor_for(config, tokenizer)) is kind


def test_t5_has_its_prefix_and_models_their_longest_input(tokenizer):
    config = T5Config(task_specific_params={"summarization": {"prefix": "summarize: "}})
    processor = processor_for(config, tokenizer)
    assert processor.prefix == "summarize: "
    assert processor.max_length == tokenizer.model_max_length
    assert processor_for(LEDConfig(max_encoder_position_embeddings=99), tokenizer).max_length == 99
    assert processor_for(VccT5Config(), tokenizer).max_length is None


def test_what_was_saved_comes_before_the_family(tokenizer, tmp_path):
    VCCProcessor(tokenizer, max_length=50).save_pretrained(tmp_path)
    processor = load_processor(tmp_path, T5Config())
    assert type(processor) is VCCProcessor
    assert processor.max_length == 50
    assert load_processor(tmp_path, T5Config(), max_length=9).max_length == 9


def test_a_bare_checkpoint_takes_its_familys(tokenizer, tmp_path):
    tokenizer.save_pretrained(tmp_path)
    processor = load_processor(tmp_path, LEDConfig(), num_keywords=5)
    assert type(processor) is LEDProcessor
    assert processor.num_keywords == 5


def test_unknown_options_are_refused(tokenizer):
    with pytest.raises(ValueError, match="TextProcessor has no option 'num_keywords'"):
        processor_for(T5Config(), tokenizer, num_keywords=3)
    with pytest.raises(ValueError, match="num_keywords must be at least 0, got -1"):
        processor_for(LEDConfig(), tokenizer, num_keywords=-1)


@pytest.mark.parametrize("config", [RobertaConfig, LongformerConfig])
def test_positions_that_begin_after_padding_leave_fewer_for_tokens(tokenizer, config, monkeypatch):
    monkeypatch.setattr(tokenizer, "model_max_length", VERY_LARGE_INTEGER)
    processor = processor_for(config(max_position_embeddings=42, pad_token_id=1), tokenizer)
    assert processor.max_length == 40
    assert processor_for(BertConfig(max_position_embeddings=42), tokenizer).max_length == 42


def test_damaged_processors_are_refused(tokenizer, tmp_path):
    tokenizer.save_pretrained(tmp_path)
    (tmp_path / "processor_config.json").write_text("{,")
    with pytest.raises(ValueError, match=r"the processor_config\.json of .* is damaged"):
        load_processor(tmp_path, T5Config())
