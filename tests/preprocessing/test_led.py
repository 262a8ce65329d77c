import warnings

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import T5Config, T5ForConditionalGeneration, Trainer, TrainingArguments

from foveate import Document
from foveate.detectors import given_keywords, tfidf
from foveate.preprocessing import LEDProcessor
from foveate.preprocessing.led import has_global_tokens
from foveate.preprocessing.text import plain_text
from tests.led import bpe, led

COD = "The cod is a fish of cold seas. It eats herring. Cod swim in schools."
EEL = "Eels are long. Nobody has seen them breed in the deep sea."
DOCUMENTS = [Document.from_text(COD), Document.from_text(EEL)]


@pytest.fixture(scope="module")
def tokenizer():
    return bpe([COD, EEL])


def words(alphabet="abcdefg hij"):
    return st.text(alphabet, min_size=1).map(str.split).filter(bool).map(" ".join)


@given(st.lists(words(), max_size=4), words("abc defg.é"))
def test_exactly_the_keywords_and_the_first_token_are_global(keywords, text):
    tokenizer = bpe([COD, EEL])
    document = Document.from_text(text)
    detector = given_keywords(keywords) if keywords else "tfidf"
    processor = LEDProcessor(tokenizer, num_keywords=len(keywords), detector=detector)
    features = processor.features(document)
    prefix, text = " ".join(keywords), plain_text(document)
    expected = tokenizer(f"{prefix} {text}" if prefix else text)["input_ids"]
    assert features["input_ids"].tolist() == expected
    count = len(tokenizer(prefix, add_special_tokens=False)["input_ids"])
    rest = len(expected) - 1 - count
    assert features["global_attention_mask"].tolist() == [1] * (1 + count) + [0] * rest
    assert features["attention_mask"].tolist() == [1] * len(expected)


def test_without_keywords_the_first_token_alone_is_global(tokenizer):
    batch = LEDProcessor(tokenizer)(DOCUMENTS)
    assert batch["global_attention_mask"].sum(1).tolist() == [1, 1]
    assert batch["global_attention_mask"][:, 0].tolist() == [1, 1]
    assert tokenizer.batch_decode(batch["input_ids"], skip_special_tokens=True) == [COD, EEL]


def test_a_query_comes_between_keywords_and_document(tokenizer):
    processor = LEDProcessor(tokenizer, num_keywords=1, detector=given_keywords(["cod"]))
    batch = processor(DOCUMENTS[0], query="which fish")
    text = tokenizer.decode(batch["input_ids"][0], skip_special_tokens=True)
    assert text == f"cod which fish\n{COD}"
    count = len(tokenizer("cod", add_special_tokens=False)["input_ids"])
    assert batch["global_attention_mask"][0].tolist()[: count + 2] == [1] * (1 + count) + [0]


def test_a_batch_is_padded_and_labels_ignore_it(tokenizer):
    processor = LEDProcessor(tokenizer, num_keywords=2, detector=tfidf)
    targets = ["fish", "a fish that is long"]
    examples = [
        processor.features(document, target=target)
        for document, target in zip(DOCUMENTS, targets, strict=True)
    ]
    batch = processor.pad([{**processor.model_inputs(x), "labels": x["labels"]} for x in examples])
    for name, padding in {
        "input_ids": tokenizer.pad_token_id,
        "attention_mask": 0,
        "global_attention_mask": 0,
        "labels": -100,
    }.items():
        assert batch[name].dtype == torch.int64
        for padded, example in zip(batch[name], examples, strict=True):
            assert torch.equal(padded[: len(example[name])], example[name])
            assert (padded[len(example[name]) :] == padding).all()


def test_long_documents_are_truncated_with_a_warning_and_keep_their_end(tokenizer):
    processor = LEDProcessor(
        tokenizer, num_keywords=1, detector=given_keywords(["cod"]), max_length=20
    )
    with pytest.warns(UserWarning, match="a document has more than 20 tokens"):
        batch = processor(DOCUMENTS)
    assert batch["input_ids"].shape == (2, 20)
    assert (batch["input_ids"][:, -1] == tokenizer.eos_token_id).all()


def test_keywords_that_leave_no_room_are_refused(tokenizer):
    keywords = given_keywords(["nobody has seen them breed"])
    processor = LEDProcessor(tokenizer, num_keywords=1, detector=keywords, max_length=8)
    with pytest.raises(ValueError, match="leave no room for the text"):
        processor(DOCUMENTS)


def test_unfit_arguments_are_refused(tokenizer):
    with pytest.raises(ValueError, match="there is no method 'tf'"):
        LEDProcessor(tokenizer, detector="tf")
    with pytest.raises(ValueError, match="num_keywords must be at least 0, got -1"):
        LEDProcessor(tokenizer, num_keywords=-1)
    with pytest.raises(ValueError, match="nothing to encode: give at least one document"):
        LEDProcessor(tokenizer)([])
    bare = bpe([COD])
    bare.backend_tokenizer.post_processor = None
    with pytest.raises(ValueError, match="does not put special tokens before and after"):
        LEDProcessor(bare)


def test_a_function_is_not_saved_as_detector(tokenizer, tmp_path):
    LEDProcessor(tokenizer, num_keywords=3, detector=given_keywords(["cod"])).save_pretrained(
        tmp_path
    )
    again = LEDProcessor.from_pretrained(tmp_path)
    assert (again.detector, again.num_keywords) == ("tfidf", 3)


def test_keywords_reach_everything_in_led(tokenizer):
    """With a window of 16, the last token depends on the first word only through global tokens."""
    model = led(len(tokenizer))
    near = LEDProcessor(tokenizer)
    far = LEDProcessor(tokenizer, num_keywords=1, detector=given_keywords(["cod"]))
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
    processor = LEDProcessor(tokenizer, num_keywords=2)
    batch = processor(DOCUMENTS)
    ids = model.generate(**batch, max_new_tokens=4, num_beams=2)
    assert ids.shape[0] == 2
    examples = [
        processor.model_inputs(features) | {"labels": features["labels"]}
        for document, target in zip(DOCUMENTS, ["cod swim", "eels are long"], strict=True)
        for features in [processor.features(document, target=target)]
    ]
    before = model(**processor.pad(examples)).loss.item()
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
    Trainer(model, arguments, data_collator=processor.pad, train_dataset=examples).train()
    assert model.eval()(**processor.pad(examples)).loss.item() < before


def test_who_has_global_tokens(tokenizer):
    assert has_global_tokens(led(len(tokenizer)))
    small = T5Config(vocab_size=9, d_model=8, d_kv=4, d_ff=8, num_layers=1, num_heads=2)
    assert not has_global_tokens(T5ForConditionalGeneration(small))


def test_short_documents_do_not_warn(tokenizer):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        LEDProcessor(tokenizer)(DOCUMENTS)
