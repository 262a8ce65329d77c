from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from transformers import BatchEncoding

from foveate import Document
from foveate.data import Example, Query
from foveate.models.hdt import HDTConfig, HDTForSequenceClassification
from foveate.preprocessing import TextProcessor, VCCProcessor
from foveate.training.objectives import (
    Classification,
    Contrastive,
    HotpotQA,
    MaskedLM,
    MixtureOfDenoisers,
    MultipleChoice,
    QuestionAnswering,
    SequenceToSequence,
    SpanCorruption,
)
from foveate.training.objectives.masked_lm import mask_tokens
from tests.numerics import relative_error

WHALE = Document.from_sections("", [("Loomings", ["The whale swims.", "A ship follows it."])])
COD = Document.from_sections("", [("Fish", ["Northern seas and ice."])])


def example(document=WHALE, **fields):
    return Example(document=document, **fields)


def batch_of(objective, processor, *examples, seed=0):
    generator = torch.Generator().manual_seed(seed)
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


def test_all_choices_are_vip_tokens_of_one_sequence(bert_tokenizer):
    processor = VCCProcessor(bert_tokenizer)
    asked = example(references=("at sea",), **ASKED)
    fewer = example(query="Is it?", choices=("at sea",), references=("at sea",))
    orders = set()
    for seed in range(8):
        encoded, batch = batch_of(MultipleChoice(), processor, asked, fewer, seed=seed)
        order = ["at sea", "on land"] if encoded[0]["labels"] == 0 else ["on land", "at sea"]
        orders.add(tuple(order))
        prompt = vip_text(bert_tokenizer, encoded[0])
        assert prompt == "[CLS] where does it swim? [SEP] {} [SEP] {} [SEP]".format(*order)
        ids = encoded[0]["input_ids"].tolist()
        markers = encoded[0]["choice_mask"].nonzero()[:, 0].tolist()
        for marker, choice in zip(markers, order, strict=True):
            tokens = bert_tokenizer(choice, add_special_tokens=False)["input_ids"]
            assert ids[marker + 1 : marker + 1 + len(tokens)] == tokens
        assert batch["choice_mask"].sum(1).tolist() == [2, 1]
        assert batch["vip_mask"].shape == batch["input_ids"].shape
    assert len(orders) == 2  # they are shuffled


@pytest.mark.filterwarnings("ignore:a document has more than")
def test_support_of_hotpotqa_is_labelled_where_it_begins(bert_tokenizer):
    sections = [("Cod", ["Cod swim.", "They eat."]), ("Cow", ["Cows walk.", "Cows eat."])]
    asked = example(
        Document.from_sections("", sections),
        query="Who eats?",
        references=("Cod",),
        queries=(Query("Who eats?", (1,)),),
    )
    processor, objective = VCCProcessor(bert_tokenizer), HotpotQA()
    [features], batch = batch_of(objective, processor, asked)
    first = {
        int(sentence): int((features["sentence_ids"] == sentence).nonzero()[0, 0])
        for sentence in range(4)
    }
    expected = torch.full_like(features["input_ids"], -100)
    for sentence, place in first.items():
        expected[place] = int(sentence == 1)
    assert torch.equal(features["sentence_labels"], expected)
    expected = torch.full_like(features["input_ids"], -100)
    expected[first[0]], expected[first[2]] = 1, 0
    assert torch.equal(features["paragraph_labels"], expected)
    assert features["answer_types"] == 2
    answer = features["input_ids"][features["start_positions"] : features["end_positions"] + 1]
    assert bert_tokenizer.decode(answer) == "cod"
    assert set(objective.target_columns) <= set(batch)
    # A yes is no word of the text, and an answer that is not there has no place.
    for reference, kind in (("yes", 1), ("no", 0), ("herring", 2)):
        [features], _ = batch_of(objective, processor, replace(asked, references=(reference,)))
        assert features["answer_types"] == kind
        assert features["start_positions"] == features["end_positions"] == -100
    [features], _ = batch_of(objective, processor, replace(asked, queries=()))
    assert (features["sentence_labels"] == -100).all()
    short = VCCProcessor(bert_tokenizer, max_length=first[2])
    [features], _ = batch_of(objective, short, asked)
    assert (features["paragraph_labels"] != -100).sum() == 1


def test_masks_lie_in_clusters():
    length, generator = 4000, torch.Generator().manual_seed(0)
    features = {
        "input_ids": torch.arange(length),
        "special_tokens_mask": torch.zeros(length, dtype=torch.long),
    }
    neighbours = []
    for clustered in (False, True):
        masked = mask_tokens(
            features,
            ratio=0.075,
            mask_token_id=length,
            vocab_size=length,
            generator=generator,
            clustered=clustered,
        )["labels"]
        places = (masked != -100).nonzero()[:, 0]
        assert len(places) == 300
        assert torch.equal(masked[places], places)  # none is drawn twice
        near = (places[:, None] - places).abs() <= 100
        neighbours.append(float(near.sum(1).float().mean()))
    assert neighbours[0] < 25  # 201 places of 4,000, for 300 tokens: 15
    assert neighbours[1] > 30


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
