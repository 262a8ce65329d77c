from types import SimpleNamespace

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from transformers import BatchEncoding

from foveate import Document
from foveate.data import Example
from foveate.models.hdt import HDTConfig, HDTForSequenceClassification
from foveate.preprocessing import TextProcessor, VCCProcessor
from foveate.training.objectives import (
    Classification,
    Contrastive,
    MaskedLM,
    MixtureOfDenoisers,
    MultipleChoice,
    QuestionAnswering,
    SequenceToSequence,
    SpanCorruption,
)
from tests.numerics import relative_error

WHALE = Document.from_sections("", [("Loomings", ["The whale swims.", "A ship follows it."])])
COD = Document.from_sections("", [("Fish", ["Northern seas and ice."])])


def example(document=WHALE, **fields):
    return Example(document=document, **fields)


def batch_of(objective, processor, *examples):
    generator = torch.Generator().manual_seed(0)
    features = [
        features
        for example in examples
        for features in objective.features(processor, example, generator)
    ]
    return features, objective.collate(processor, features)


def test_masked_trees_are_packed_and_texts_are_padded(tree_processor, text_processor):
    encoded, batch = batch_of(MaskedLM(), tree_processor, example(), example(COD))
    assert set(batch) == {"input_ids", "labels", "tree"}
    assert batch["input_ids"].shape == (1, sum(len(features["input_ids"]) for features in encoded))
    assert batch["tree"].level_sizes[0] == 2
    encoded, batch = batch_of(MaskedLM(), text_processor, example(), example(COD))
    assert set(batch) == {"input_ids", "attention_mask", "labels"}
    assert len(batch["labels"]) == 2


def test_targets_end_within_their_limit(tree_processor, text_processor):
    end = tree_processor.tokenizer.eos_token_id
    for objective in (SpanCorruption(max_target_length=4), MixtureOfDenoisers(max_target_length=4)):
        _, batch = batch_of(objective, tree_processor, example(), example(COD))
        assert batch["labels"].shape[1] <= 4
        for labels in batch["labels"]:
            assert labels[labels != -100][-1] == end
    target = example(references=("A ship follows the whale.", "Another."))
    _, batch = batch_of(SequenceToSequence(), text_processor, target)
    written = text_processor.tokenizer.decode(batch["labels"][0], skip_special_tokens=True)
    assert written.strip() == "A ship follows the whale."
    assert batch["labels"][0, -1] == end


def test_queries_are_read_first(tree_processor, text_processor):
    asked = example(query="Which ship?", references=("a",))
    for processor in (tree_processor, text_processor):
        [features], _ = batch_of(SequenceToSequence(), processor, asked)
        tokens = features["input_ids"][features["special_tokens_mask"] == 0]
        assert processor.tokenizer.decode(tokens).strip().startswith("Which ship?")


def test_classes_are_numbered(tree_processor):
    one = Classification(("sea", "land"))
    _, batch = batch_of(
        one, tree_processor, example(labels=("land",)), example(COD, labels=("sea",))
    )
    assert batch["labels"].tolist() == [1, 0]
    assert batch["tree"].level_sizes[0] == 2
    several = Classification(("sea", "land"), multi_label=True)
    _, batch = batch_of(several, tree_processor, example(labels=("sea", "land")), example(COD))
    assert batch["labels"].tolist() == [[1.0, 1.0], [0.0, 0.0]]
    assert several.config_options()["problem_type"] == "multi_label_classification"


def test_packed_documents_have_the_loss_of_padded_ones(tree_processor):
    features, batch = batch_of(
        Classification(("sea", "land")),
        tree_processor,
        example(labels=("land",)),
        example(COD, labels=("sea",)),
    )
    sizes = {"d_model": 16, "d_kv": 8, "d_ff": 16, "num_layers": 1, "num_heads": 2}
    config = HDTConfig(vocab_size=len(tree_processor.tokenizer), **sizes)
    model = HDTForSequenceClassification(config).eval()
    padded = tree_processor.pad([tree_processor.model_inputs(one) for one in features])
    expected = model(**padded, labels=batch["labels"])
    found = model(**batch)
    assert relative_error(found.logits, expected.logits) < 1e-5
    assert relative_error(found.loss, expected.loss) < 1e-5


def test_choices_are_a_dimension_of_their_own(text_processor):
    asked = example(query="Where?", choices=("sea", "on land", "ice"), references=("ice",))
    _, batch = batch_of(MultipleChoice(), text_processor, asked, asked)
    assert batch["input_ids"].shape[:2] == (2, 3)
    assert batch["labels"].tolist() == [2, 2]
    fewer = example(choices=("sea", "ice"), references=("ice",))
    with pytest.raises(ValueError, match=r"have \[2, 3\] choices"):
        batch_of(MultipleChoice(), text_processor, asked, fewer)


@pytest.mark.filterwarnings("ignore:a document has more than")
def test_answers_are_found_after_the_query(text_processor, small_tokenizer):
    asked = example(query="Does a ship follow it?", references=("Nemo", "ship follows it"))
    [features], batch = batch_of(QuestionAnswering(), text_processor, asked)
    found = features["input_ids"][features["start_positions"] : features["end_positions"] + 1]
    assert small_tokenizer.decode(found).strip() == "ship follows it"
    assert features["start_positions"] > 5
    assert batch["end_positions"].shape == (1,)
    [features], _ = batch_of(QuestionAnswering(), text_processor, example(references=("Nemo",)))
    assert features["start_positions"] == features["end_positions"] == 0
    short = TextProcessor(small_tokenizer, max_length=8)
    [features], _ = batch_of(QuestionAnswering(), short, asked)
    assert features["end_positions"] == 0


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        ("no", "no"),
        ("it", "it"),
        ("(9)", "(9)"),
        ("ship", ""),
        ("ark", ""),
    ],
)
def test_answers_are_whole_words(answer, found, text_processor, small_tokenizer):
    sentences = ["We know its sails.", "But no ark9 has it (9)."]
    document = Document.from_sections("", [("Ships", sentences)])
    [features], _ = batch_of(
        QuestionAnswering(), text_processor, example(document, references=(answer,))
    )
    start, end = int(features["start_positions"]), int(features["end_positions"])
    assert (start > 0) == bool(found)
    if found:
        text = text_processor.text(document)
        places = features["offset_mapping"]
        first = text.index(f" {found}", text.index("But")) + 1
        assert int(places[start, 0]) in (first - 1, first)
        assert int(places[end, 1]) >= first + len(found)


def vip_text(tokenizer, features):
    return tokenizer.decode(features["input_ids"][features["vip_mask"] == 1])


def test_masked_spans_are_the_vip_tokens(small_tokenizer):
    processor = VCCProcessor(small_tokenizer)
    [features], batch = batch_of(SpanCorruption(), processor, example())
    assert batch["vip_mask"].shape == batch["input_ids"].shape
    vips = small_tokenizer.convert_ids_to_tokens(features["input_ids"][features["vip_mask"] == 1])
    assert vips
    assert all(token.startswith("<extra_id") for token in vips)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ratio=st.floats(0.01, 0.9), seed=st.integers(0, 10**6), longer=st.booleans())
def test_exactly_what_is_predicted_is_a_vip_token(ratio, seed, longer, bert_tokenizer):
    processor = VCCProcessor(bert_tokenizer)
    generator = torch.Generator().manual_seed(seed)
    documents = [WHALE, COD] if longer else [COD]
    features = [
        one
        for document in documents
        for one in MaskedLM(ratio).features(processor, example(document), generator)
    ]
    batch = MaskedLM(ratio).collate(processor, features)
    assert torch.equal(batch["vip_mask"] == 1, batch["labels"] != -100)
    assert (batch["vip_mask"].sum(1) > 0).all()
    assert not batch["vip_mask"][:, 0].any()  # not even CLS


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(density=st.floats(0.05, 0.8), seed=st.integers(0, 10**6))
def test_exactly_the_sentinels_are_vip_tokens(density, seed, small_tokenizer):
    processor = VCCProcessor(small_tokenizer)
    generator = torch.Generator().manual_seed(seed)
    [features] = SpanCorruption(noise_density=density).features(processor, example(), generator)
    sentinels = small_tokenizer.convert_tokens_to_ids([f"<extra_id_{i}>" for i in range(100)])
    is_sentinel = torch.isin(features["input_ids"], torch.tensor(sentinels))
    assert torch.equal(features["vip_mask"] == 1, is_sentinel)


ASKED = {"query": "Where does it swim?", "choices": ("at sea", "on land")}


@pytest.mark.parametrize("task", [{}, {"query": ASKED["query"]}])
@pytest.mark.parametrize("family", ["t5", "bert"])
def test_vip_tokens_of_training_are_those_of_inference(task, family, t5_tokenizer, bert_tokenizer):
    tokenizer = t5_tokenizer if family == "t5" else bert_tokenizer
    processor = VCCProcessor(tokenizer)
    asked = example(references=("at sea",), labels=("sea",), **task)
    objectives = [Classification(("sea", "land"))]
    objectives += [SequenceToSequence()] if family == "t5" else [QuestionAnswering()]
    inference = processor(WHALE, **task)
    for objective in objectives:
        [features], batch = batch_of(objective, processor, asked)
        for name in processor.columns & inference.keys():
            assert torch.equal(batch[name], inference[name])
        prompt = vip_text(tokenizer, features)
        assert task.get("query", "").lower() in prompt.lower()
        if family == "t5" and not task:
            assert prompt == "summarize:"


def test_vip_tokens_of_a_choice_are_the_question_and_the_choice(bert_tokenizer):
    processor = VCCProcessor(bert_tokenizer)
    asked = example(references=("at sea",), **ASKED)
    encoded, batch = batch_of(MultipleChoice(), processor, asked)
    prompts = [vip_text(bert_tokenizer, features) for features in encoded]
    assert prompts == [
        "[CLS] where does it swim? at sea [SEP]",
        "[CLS] where does it swim? on land [SEP]",
    ]
    assert batch["vip_mask"].shape[:2] == (1, 2)


def test_contrastive_batches_hold_anchors_then_positives_then_negatives(tree_processor):
    triple = example(related=(COD, WHALE))
    encoded, batch = batch_of(Contrastive(), tree_processor, triple, triple)
    assert batch["labels"].tolist() == [0, 1]
    assert batch["input_ids"].shape[0] == 6
    cod = encoded[1]["input_ids"]
    assert torch.equal(batch["input_ids"][2, : len(cod)], cod)
    assert torch.equal(batch["input_ids"][3, : len(cod)], cod)
    hidden_states = torch.randn(6, 3, 4)
    output = BatchEncoding({"last_hidden_state": hidden_states})
    loss = Contrastive().compute_loss(SimpleNamespace(**output), batch["labels"])
    expected = torch.nn.functional.triplet_margin_loss(*hidden_states[:, 0].split(2), margin=1.0)
    assert relative_error(loss, expected) < 1e-6
    accumulated = Contrastive().compute_loss(SimpleNamespace(**output), batch["labels"], 8)
    assert relative_error(accumulated, expected / 4) < 1e-6


@pytest.mark.parametrize(
    ("objective", "bad", "message"),
    [
        (SequenceToSequence(), example(), "no reference to generate"),
        (Classification(("a", "b")), example(), r"has the labels \[\]: give it exactly one"),
        (
            Classification(("a", "b")),
            example(labels=("c",)),
            "'c' is not among the labels .*: add it to them",
        ),
        (MultipleChoice(), example(choices=("a",)), "does not say which choice"),
        (Contrastive(), example(), "needs a positive and a negative"),
        (QuestionAnswering(), example(), "HDTProcessor does not map tokens to text"),
    ],
)
def test_unusable_examples_are_rejected(objective, bad, message, tree_processor):
    with pytest.raises(ValueError, match=message):
        batch_of(objective, tree_processor, bad)


def test_a_vocabulary_without_the_needed_tokens_is_rejected(bert_tokenizer):
    processor = TextProcessor(bert_tokenizer)
    with pytest.raises(ValueError, match="no sentinel '<extra_id_0>'"):
        batch_of(SpanCorruption(), processor, example())
    with pytest.raises(ValueError, match="no mode token"):
        batch_of(MixtureOfDenoisers(), processor, example())
