"""Every recipe that foveate ships trains, on small data in the form in which it is published."""

import json

import pytest
import torch

from foveate.models.speed_ups import patches
from foveate.preprocessing import load_processor
from foveate.training import Recipe, build_trainer, recipe_names, train
from foveate.training.building import load_examples
from tests.conftest import random_record
from tests.profiles import NIGHTLY
from tests.training.benchmark_files import egad, write_benchmark
from tests.training.conftest import QUICK, TINY, checkpoint, losses

CHECKPOINTS = {
    "hdt-e-anchor-classification": "hdt",
    "hdt-e-contrastive": "hdt",
    "hdt-e-classification": "hdt",
    "hdt-ed-summarization": "hdt-ed",
    "vcc-roberta": "roberta",
    "vcc-roberta-hotpotqa": "vcc-roberta",
    "vcc-roberta-quality": "vcc-roberta",
    "vcc-roberta-wikihop": "vcc-roberta",
    "vcc-t5": "t5",
    "vcc-t5-finetuning": "vcc-t5",
    "fovea": "longt5",
    "egad": "led",
    "tree-bert": "bert",
    "tree-bert-finetuning": "tree-bert",
}
"""Checkpoints that recipes start from."""

ONE_OF_A_FAMILY = ("egad", "fovea", "hdt-e", "hdt-ed", "tree-bert", "vcc-roberta", "vcc-t5")

TREE, TEXT = {"input_ids", "tree"}, {"input_ids", "attention_mask"}
VIPS = TEXT | {"vip_mask"}
PAIRS = VIPS | {"token_type_ids"}
CHOICES = PAIRS | {"choice_mask"}
LIKE_INPUTS = ("inputs",)
GENERATED = (2, "any")
ANCHORS = ("inputs", 15)
EXPECTED = {
    "egad": ("LEDForConditionalGeneration", TEXT | {"global_attention_mask"}, (2,), GENERATED),
    "fovea": ("FoveaForConditionalGeneration", TEXT, (2,), GENERATED),
    "hdt-e": ("HDTForMaskedLM", TREE, (1,), LIKE_INPUTS),
    "hdt-e-anchor-classification": ("HDTForTokenClassification", TREE, (1,), ANCHORS),
    "hdt-e-classification": ("HDTForSequenceClassification", TREE, (1,), (2, 10)),
    "hdt-e-rotary-passages": ("HDTForMaskedLM", TREE, (1,), LIKE_INPUTS),
    "hdt-e-contrastive": ("HDTModel", TEXT | {"parent_ids"}, (6,), (2,)),
    "hdt-ed": ("HDTForConditionalGeneration", TREE, (1,), GENERATED),
    "hdt-ed-summarization": ("HDTForConditionalGeneration", TREE, (1,), GENERATED),
    "tree-bert": ("TreeBertModel", None, None, None),  # its batches have a form of their own
    "tree-bert-finetuning": ("TreeBertModel", None, None, None),
    "vcc-roberta": ("VccRobertaForMaskedLM", PAIRS, (2,), LIKE_INPUTS),
    "vcc-roberta-hotpotqa": ("VccRobertaForHotpotQA", PAIRS, (2,), (2,)),
    "vcc-roberta-quality": ("VccRobertaForMultipleChoice", CHOICES, (2,), (2,)),
    "vcc-roberta-wikihop": ("VccRobertaForMultipleChoice", CHOICES, (2,), (2,)),
    "vcc-t5": ("VccT5ForConditionalGeneration", VIPS, (2,), GENERATED),
    "vcc-t5-finetuning": ("VccT5ForConditionalGeneration", VIPS, (2,), GENERATED),
}
"""For each recipe, the class of its model; the columns of a batch of two documents that the model
takes, and their sizes except the length; and the sizes of the targets."""


@pytest.mark.parametrize("name", recipe_names() if NIGHTLY else ONE_OF_A_FAMILY)
def test_every_recipe_trains_on_small_data(name, tmp_path, small_tokenizer, bert_tokenizer):
    if name == "hdt-e-contrastive":
        data = tmp_path / "triplets.jsonl"
        parts = ("anchor", "positive", "negative")
        lines = [{part: random_record(i + j) for j, part in enumerate(parts)} for i in range(6)]
        data.write_text("".join(json.dumps(line) + "\n" for line in lines))
    else:
        data = write_benchmark(Recipe.load(name).data.benchmark, tmp_path)
    entries = {"data.train": data, "training.max_steps": 2, "training.warmup_steps": 0}
    entries |= {f"training.{entry}": value for entry, value in QUICK.items()}
    entries |= {"training.gradient_accumulation_steps": 2, "training.save_strategy": "no"}
    entries |= {"training.eval_strategy": "no", "training.load_best_model_at_end": False}
    entries |= {"batch": "{documents: 2}", "data.dev": "[]"}
    if name in CHECKPOINTS:
        # BERT's, LED's and RoBERTa's tokenizers put special tokens around a text.
        encloses = CHECKPOINTS[name] in ("bert", "tree-bert", "led", "roberta", "vcc-roberta")
        tokenizer = bert_tokenizer if encloses else small_tokenizer
        checkpoint(CHECKPOINTS[name], tmp_path / "model", tokenizer)
        entries["model.checkpoint"] = tmp_path / "model"
    else:
        entries["tokenizer"] = 420
        entries |= {f"model.{entry}": value for entry, value in TINY.items()}
    if name == "tree-bert":
        entries["training.dataloader_prefetch_factor"] = "null"  # there are no workers
    if "roberta" in name:
        entries["processor.max_length"] = 256
    recipe = Recipe.load(name, [f"{entry}={value}" for entry, value in entries.items()])
    trainer = train(recipe, tmp_path / "out")
    assert len(losses(trainer)) == 2
    assert all(0 < loss < 50 for loss in losses(trainer))

    kind, columns, leading, target = EXPECTED[name]
    assert type(trainer.model).__name__ == kind
    config = trainer.model.config
    for entry in recipe.model.keys() - {"checkpoint", "type", "speed_up"}:
        assert getattr(config, entry) == recipe.model[entry]
    if recipe.model.get("speed_up"):
        assert patches(trainer.model)
    processor, saved = trainer.processing_class, load_processor(tmp_path / "out", config)
    assert type(saved) is type(processor)
    example = trainer.train_dataset.examples[0]
    for entry, value in recipe.processor.items():
        assert getattr(saved, entry) == value
    asked = {"query": example.query, "choices": example.choices}
    expected = processor.features(example.document, **asked)
    assert all(
        torch.equal(column, expected[column_name])
        for column_name, column in saved.features(example.document, **asked).items()
    )
    batch = trainer.data_collator([trainer.train_dataset[0]])
    if kind == "TreeBertModel":
        assert len(batch["targets"]["document"].unique()) == 2
        return
    targets = set(recipe.objective.target_columns)
    assert set(batch) == columns | targets
    inputs = batch["input_ids"].shape
    assert inputs[:-1] == leading
    assert all(batch[column].shape == inputs for column in columns - {"tree"})
    for column in targets - {"sentence_labels", "paragraph_labels"}:
        shape = tuple(batch[column].shape)
        assert shape == {
            LIKE_INPUTS: inputs,
            GENERATED: (2, shape[-1]),
            ANCHORS: (*inputs, 15),
        }.get(target, target)


def test_hdt_is_pretrained_with_the_published_settings():
    published, ours, both = map(Recipe.load, ("hdt-e", "hdt-e-rotary-passages", "hdt-ed"))
    for recipe in (published, both):
        assert recipe.model.get("position_embedding_type", "hierarchical") == "hierarchical"
        assert recipe.processor["max_sentence_tokens"] is None
        assert recipe.processor.get("passage_tokens") is None
        assert recipe.training["learning_rate"] == 1e-3
        assert recipe.training["lr_scheduler_type"] == "inverse_sqrt"
        assert recipe.training["warmup_steps"] == 0.5
        assert recipe.training["max_grad_norm"] == 0.5
    assert both.objective.max_target_length == 512
    assert ours.model == published.model | {"position_embedding_type": "rotary"}
    assert ours.processor["passage_tokens"] == 512


@pytest.mark.parametrize(
    "detector",
    [
        "tfidf",
        "{name: phrases, max_words: 1}",
        "{name: random, seed: 5}",
        "{name: gibberish, seed: 5}",
        "{name: given, keywords: [whale, ship]}",
    ],
)
def test_egad_trains_with_every_detector(detector, tmp_path, bert_tokenizer):
    recipe = egad(tmp_path, bert_tokenizer, {"num_keywords": 2, "detector": detector}, max_steps=1)
    trainer = train(recipe, tmp_path / "out")
    assert len(losses(trainer)) == 1
    saved = load_processor(tmp_path / "out", trainer.model.config)
    assert saved.detector == recipe.processor["detector"]
    document = trainer.train_dataset.examples[0].document
    keywords = " ".join(saved.keywords(document))
    batch = trainer.data_collator([trainer.train_dataset[0]])
    num_tokens = len(bert_tokenizer(keywords, add_special_tokens=False)["input_ids"])
    features = saved.features(document)
    assert features["global_attention_mask"].sum() == 1 + num_tokens
    assert (batch["global_attention_mask"].sum(1) > 1).all()


@pytest.mark.parametrize(
    ("processor", "message"),
    [
        ({"detector": "rake"}, "processor: there is no method 'rake': name one of tfidf"),
        ({"detector": "{name: phrases, words: 2}"}, "'phrases' got an unexpected keyword"),
        ({"num_keywords": "-1"}, "processor: num_keywords must be at least 0, got -1"),
    ],
)
def test_a_wrong_detector_of_egad_is_named(processor, message, tmp_path, bert_tokenizer):
    with pytest.raises(ValueError, match=message):
        build_trainer(egad(tmp_path, bert_tokenizer, processor), tmp_path / "out")


@pytest.mark.parametrize("name", ["egad", "fovea"])
def test_json_lines_of_ones_own_need_no_other_setting(name, tmp_path):
    file = write_benchmark("", tmp_path)
    recipe = Recipe.load(name, [f"data.train={file}"])
    examples, _ = load_examples(recipe.data, recipe.data.train)
    assert examples[0].references == ("the whale",)
