import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import AutoTokenizer, DataCollatorForLanguageModeling, PreTrainedTokenizerFast

from foveate import Document, VCCProcessor
from foveate.inference.default import default_model_path
from foveate.preprocessing.vcc import mark_masked, prompted

SEA = Document.from_text("Cod swim in cold seas. Eels are long.")


@pytest.fixture(scope="module")
def bert():
    return AutoTokenizer.from_pretrained(default_model_path())


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
    row, places = prompted(bert, "Which fish?", "Cod swim.")
    assert bert.decode(row["input_ids"]) == "[CLS] which fish? [SEP] cod swim. [SEP]"
    assert row["vip_mask"] == [1, 1, 1, 1, 1, 0, 0, 0, 0]
    assert row["token_type_ids"] == [0, 0, 0, 0, 0, 1, 1, 1, 1]
    assert places == [-1, -1, -1, -1, -1, 0, 4, 8, -1]


def test_a_prefix_is_marked_before_the_document(t5):
    row, places = prompted(t5, "summarize:", "cod swim.")
    assert row["vip_mask"] == [1, 1, 0, 0, 0, 0]
    assert places == [-1, -1, 0, 4, 8, -1]


def test_rows_are_padded_and_cut(bert):
    long = Document.from_text("Cod swim. " * 50)
    batch = VCCProcessor(bert, max_length=20)([SEA, long], ["Who?", "Where do they swim?"])
    assert {name: rows.shape for name, rows in batch.items()} == dict.fromkeys(
        ("input_ids", "token_type_ids", "attention_mask", "vip_mask"), (2, 20)
    )
    assert batch["vip_mask"].sum(1).tolist() == [4, 7]
    assert batch["input_ids"][1, -1] == bert.sep_token_id
    assert batch["attention_mask"][0].sum() == 4 + 10 + 1


def test_targets_become_labels(t5):
    batch = VCCProcessor(t5)([SEA, SEA], "summarize:", ["cod", "cod cod cod"])
    assert batch["labels"].tolist() == [[7, 1, -100, -100], [7, 7, 7, 1]]


def test_choices_have_a_row_each(bert):
    batch = VCCProcessor(bert).choices([SEA, SEA], ["Who?", "Where?"], [["cod", "eel"]] * 2)
    assert batch["input_ids"].shape[:2] == (2, 2)
    assert bert.decode(batch["input_ids"][1, 0]).startswith("[CLS] where? cod [SEP] cod swim")
    assert (batch["vip_mask"].sum(2) >= 5).all()


def test_masked_tokens_are_marked(bert, t5):
    torch.manual_seed(0)
    rows = [bert("Cod swim in cold seas."), bert("Eels.")]
    collated = DataCollatorForLanguageModeling(bert, mlm_probability=0.4)(rows)
    batch = mark_masked(collated, bert)
    wanted = collated["labels"] != -100
    assert wanted.any()
    wanted[:, 0] = True
    assert torch.equal(batch["vip_mask"].bool(), wanted)
    ids = t5("<extra_id_0> cod <extra_id_1>", return_tensors="pt")
    assert mark_masked({"input_ids": ids["input_ids"]}, t5)["vip_mask"].tolist() == [[1, 0, 1, 0]]


def test_the_first_of_a_row_padded_on_the_left_is_marked(bert):
    batch = {"input_ids": torch.zeros(1, 3).long(), "attention_mask": torch.tensor([[0, 1, 1]])}
    assert mark_masked(batch, bert)["vip_mask"].tolist() == [[0, 1, 0]]


def test_what_does_not_fit_is_said(bert):
    processor = VCCProcessor(bert, max_length=8)
    with pytest.raises(ValueError, match="1 documents need as many prompts, got 2"):
        processor(SEA, ["a", "b"])
    with pytest.raises(ValueError, match="1 documents need as many targets, got 2"):
        processor(SEA, "a", ["a", "b"])
    with pytest.raises(ValueError, match="the prompt fills the 8 tokens"):
        processor(SEA, "one two three four five six")
    with pytest.raises(ValueError, match="a prompt is empty"):
        processor(SEA, " ")
    with pytest.raises(ValueError, match="equally many choices"):
        processor.choices([SEA, SEA], ["a", "b"], [["c"], ["d", "e"]])


def test_prompts_that_cannot_be_marked_are_refused(t5, monkeypatch):
    with pytest.raises(ValueError, match="the prompt is empty"):
        prompted(t5, "", "cod swim.")
    monkeypatch.setattr(type(t5), "is_fast", False)
    with pytest.raises(ValueError, match="load a fast one"):
        prompted(t5, "summarize:", "cod swim.")
