import warnings

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import T5Config, T5ForConditionalGeneration, Trainer, TrainingArguments

from foveate import Document, LEDProcessor
from foveate.detectors import given_keywords, tfidf
from foveate.preprocessing.led import guided, has_global_tokens
from foveate.preprocessing.text import located_text, plain_text
from foveate.training.reading import with_keywords
from tests.led import bpe, led

COD = "The cod is a fish of cold seas. It eats herring. Cod swim in schools."
EEL = "Eels are long. Nobody has seen them breed in the deep sea."
DOCUMENTS = [Document.from_text(COD), Document.from_text(EEL)]


@pytest.fixture(scope="module")
def tokenizer():
    return bpe([COD, EEL])


def words(alphabet="abcdefg hij"):
    return st.text(alphabet, min_size=1).map(str.split).filter(bool).map(" ".join)


@settings(max_examples=50)
@given(st.lists(words(), max_size=4), words("abc defg.é"))
def test_rows_are_the_prefixed_text_and_exactly_the_prefix_is_global(keywords, text):
    tokenizer = bpe([COD, EEL])
    row = guided(tokenizer, text, keywords)
    prefix = " ".join(keywords)
    assert row["input_ids"] == tokenizer(f"{prefix} {text}" if prefix else text)["input_ids"]
    count = len(tokenizer(prefix, add_special_tokens=False)["input_ids"])
    rest = len(row["input_ids"]) - 1 - count
    assert row["global_attention_mask"] == [1] * (1 + count) + [0] * rest
    assert row["attention_mask"] == [1] * len(row["input_ids"])


def test_without_keywords_the_task_token_alone_is_global(tokenizer):
    batch = LEDProcessor(tokenizer, k=0)(DOCUMENTS)
    assert batch["global_attention_mask"].sum(1).tolist() == [1, 1]
    assert batch["global_attention_mask"][:, 0].tolist() == [1, 1]
    assert tokenizer.batch_decode(batch["input_ids"], skip_special_tokens=True) == [COD, EEL]


def test_a_batch_is_padded_and_labels_ignore_it(tokenizer):
    processor = LEDProcessor(tokenizer, tfidf, k=2)
    rows = processor.encode(DOCUMENTS, ["fish", "a fish that is long"])
    batch = processor.pad(rows)
    for name, padding in {
        "input_ids": tokenizer.pad_token_id,
        "attention_mask": 0,
        "global_attention_mask": 0,
        "labels": -100,
    }.items():
        assert batch[name].dtype == torch.int64
        for own, row in zip(batch[name], rows, strict=True):
            assert own[: len(row[name])].tolist() == row[name]
            assert (own[len(row[name]) :] == padding).all()


def test_what_is_too_long_is_cut_with_a_warning_and_keeps_its_end(tokenizer):
    processor = LEDProcessor(tokenizer, given_keywords(["cod"]), k=1, max_length=20)
    with pytest.warns(UserWarning, match=r"2 of 2 documents are longer than 20 tokens"):
        batch = processor(DOCUMENTS)
    assert batch["input_ids"].shape == (2, 20)
    assert (batch["input_ids"][:, -1] == tokenizer.eos_token_id).all()
    with pytest.warns(UserWarning, match=r"1 of 2 targets are longer than 3 tokens"):
        LEDProcessor(tokenizer).encode(DOCUMENTS, ["", EEL], max_target_length=3)


def test_keywords_that_leave_no_room_are_refused(tokenizer):
    keywords = given_keywords(["nobody has seen them breed"])
    with pytest.raises(ValueError, match="leave no room for the text"):
        LEDProcessor(tokenizer, keywords, max_length=8)(DOCUMENTS)


def test_unfit_arguments_are_refused(tokenizer):
    with pytest.raises(TypeError, match="expected a detector, got 'tfidf': give a function"):
        LEDProcessor(tokenizer, "tfidf")
    with pytest.raises(ValueError, match="k must be at least 0, got -1"):
        LEDProcessor(tokenizer, k=-1)
    with pytest.raises(ValueError, match="nothing to encode: give one document or several"):
        LEDProcessor(tokenizer)([])
    with pytest.raises(ValueError, match="2 documents need as many targets, got 1"):
        LEDProcessor(tokenizer)(DOCUMENTS, ["one"])
    bare = bpe([COD])
    bare.backend_tokenizer.post_processor = None
    with pytest.raises(ValueError, match="does not put special tokens before the text"):
        LEDProcessor(bare)


def test_keywords_reach_everything_in_led(tokenizer):
    """With a window of 16, the last token depends on the first word only through global tokens."""
    model = led(len(tokenizer))
    near = LEDProcessor(tokenizer, k=0)
    far = LEDProcessor(tokenizer, given_keywords(["cod"]))
    document = Document.from_text(" ".join([COD] * 3))

    def influence(processor, place):
        batch = processor(document)
        embedded = model.led.shared(batch["input_ids"]).detach().requires_grad_()
        masks = {"global_attention_mask": batch["global_attention_mask"]}
        masks["attention_mask"] = batch["attention_mask"]
        output = model.get_encoder()(inputs_embeds=embedded, **masks).last_hidden_state
        output[0, -1].square().sum().backward()
        return float(embedded.grad[0, place].abs().sum())

    assert influence(near, 1) == 0
    assert influence(far, 1) > 0


def test_led_generates_and_trains_on_it(tokenizer, tmp_path):
    model = led(len(tokenizer))
    processor = LEDProcessor(tokenizer, k=2)
    batch = processor(DOCUMENTS)
    ids = model.generate(**batch, max_new_tokens=4, num_beams=2)
    assert ids.shape[0] == 2
    rows = processor.encode(DOCUMENTS, ["cod swim", "eels are long"])
    before = model(**processor.pad(rows)).loss.item()
    arguments = TrainingArguments(
        str(tmp_path),
        num_train_epochs=4,
        learning_rate=1e-2,
        per_device_train_batch_size=2,
        save_strategy="no",
        report_to=[],
        use_cpu=True,
        dataloader_pin_memory=False,
        disable_tqdm=True,
        logging_strategy="no",
    )
    Trainer(model, arguments, data_collator=processor.pad, train_dataset=rows).train()
    assert model.eval()(**processor.pad(rows)).loss.item() < before


def test_who_has_global_tokens(tokenizer):
    assert has_global_tokens(led(len(tokenizer)))
    small = T5Config(vocab_size=9, d_model=8, d_kv=4, d_ff=8, num_layers=1, num_heads=2)
    assert not has_global_tokens(T5ForConditionalGeneration(small))


def test_plain_text_is_titles_and_paragraphs():
    document = Document.from_sections("Fish", [("Cod", "Cod swim. They eat.\n\nThey sleep.")])
    assert plain_text(document) == "Fish\nCod\nCod swim. They eat.\nThey sleep."


def test_paragraphs_are_located_though_they_repeat():
    document = Document.from_sections("", [("Cod", "Cod. Go on. Eat.\n\nGo on.\n\nGo on.")])
    text, spans = located_text(document)
    assert text == plain_text(document)
    assert [text[begin:end] for begin, end in spans] == ["Cod. Go on. Eat.", "Go on.", "Go on."]
    assert spans == sorted(set(spans))


def test_short_documents_do_not_warn(tokenizer):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        LEDProcessor(tokenizer)(DOCUMENTS)


def test_training_cuts_without_a_warning_for_every_document(tokenizer):
    reader = with_keywords(tokenizer, max_length=12, keywords=2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rows = [reader.read(document, "") for document in DOCUMENTS]
    expected = LEDProcessor(tokenizer, k=2).encode(DOCUMENTS)
    for row, whole in zip(rows, expected, strict=True):
        assert row["input_ids"].tolist() == [*whole["input_ids"][:11], tokenizer.eos_token_id]
        assert row["global_attention_mask"].tolist() == [*whole["global_attention_mask"][:11], 0]
