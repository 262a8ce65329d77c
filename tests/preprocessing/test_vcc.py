import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from foveate import Document
from foveate.preprocessing import VCCProcessor

SEA = Document.from_text("Cod swim in cold seas. Eels are long.")


COD = Document.from_text("Cod swim.")


@pytest.fixture
def bert(tokenizer):
    return tokenizer


@pytest.fixture(scope="module")
def t5():
    """Like T5's: no CLS, an end token, sentinels."""
    words = ["<pad>", "</s>", "<unk>", "<extra_id_0>", "<extra_id_1>", "summarize", ":", "cod"]
    tokenizer = Tokenizer(models.WordLevel({w: i for i, w in enumerate(words)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A </s>", special_tokens=[("</s>", 1)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="<pad>",
        eos_token="</s>",
        unk_token="<unk>",
        extra_special_tokens=["<extra_id_0>", "<extra_id_1>"],
    )


def test_a_question_is_marked_before_the_document(bert):
    features = VCCProcessor(bert).features(COD, query="Which fish?")
    assert bert.decode(features["input_ids"]) == "[CLS] which fish? [SEP] cod swim. [SEP]"
    assert features["vip_mask"].tolist() == [1, 1, 1, 1, 1, 0, 0, 0, 0]
    assert features["token_type_ids"].tolist() == [0, 0, 0, 0, 0, 1, 1, 1, 1]
    assert features["sentence_ids"].tolist() == [-1, -1, -1, -1, -1, 0, 0, 0, -1]
    assert features["offset_mapping"][5:8].tolist() == [[12, 15], [16, 20], [20, 21]]


def test_a_prefix_is_marked_before_the_document(t5):
    features = VCCProcessor(t5).features(COD)
    assert features["vip_mask"].tolist() == [1, 1, 0, 0, 0, 0]
    assert features["sentence_ids"].tolist() == [-1, -1, 0, 0, 0, -1]


def test_t5_reads_questions_and_choices_as_its_prompt(t5):
    processor = VCCProcessor(t5)
    text = processor.text(COD, "Which fish?", ("cod", "eel"))
    assert text == "question: Which fish? cod; eel context: Cod swim."
    features = processor.features(COD, query="Which fish?", choices=("cod", "eel"))
    vips = features["offset_mapping"][features["vip_mask"] == 1]
    assert text[vips[0, 0] : vips[-1, 1]] == "question: Which fish? cod; eel context:"
    assert features["vip_mask"].sum() < len(features["vip_mask"]) - 1


def test_only_the_first_token_is_marked_where_nothing_is_asked(bert, t5):
    assert VCCProcessor(bert).features(COD)["vip_mask"].tolist() == [1, 0, 0, 0, 0]
    for tokenizer in (bert, t5):
        features = VCCProcessor(tokenizer).document_features(COD)
        assert features["vip_mask"].tolist() == [1] + [0] * (len(features["vip_mask"]) - 1)


def test_batches_are_padded_and_truncated(bert):
    long = Document.from_text("Cod swim. " * 50)
    processor = VCCProcessor(bert, max_length=20)
    with pytest.warns(UserWarning, match="a document has more than 20 tokens"):
        batch = processor([SEA, long], query=["Who?", "Where do they swim?"])
    assert {name: column.shape for name, column in batch.items()} == dict.fromkeys(
        ("input_ids", "token_type_ids", "attention_mask", "vip_mask"), (2, 20)
    )
    assert batch["vip_mask"].sum(1).tolist() == [4, 7]
    assert batch["input_ids"][1, -1] == bert.sep_token_id
    assert batch["attention_mask"][0].sum() == 4 + 10 + 1


def test_targets_become_labels(t5):
    processor = VCCProcessor(t5)
    batch = processor.pad([processor.features(SEA, target=x) for x in ("cod", "cod cod cod")])
    assert batch["labels"].tolist() == [[7, 1, -100, -100], [7, 7, 7, 1]]


def test_what_does_not_fit_is_refused(bert):
    processor = VCCProcessor(bert, max_length=8)
    with pytest.raises(ValueError, match="the prompt fills all 8 tokens"):
        processor(SEA, query="one two three four five six")


def test_slow_tokenizers_are_refused(t5, monkeypatch):
    monkeypatch.setattr(type(t5), "is_fast", False)
    with pytest.raises(ValueError, match="load a fast tokenizer"):
        VCCProcessor(t5)
