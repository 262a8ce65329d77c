import json
from types import SimpleNamespace

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from foveate import Document
from foveate.cli.app import app
from foveate.data import Example
from foveate.evaluation.benchmark import evaluate
from foveate.evaluation.predict import predict
from foveate.models.hdt import HDTConfig, HDTForTokenClassification
from foveate.preprocessing import HDTProcessor
from foveate.training import Recipe, train
from foveate.training.objectives import AnchorClassification

NAMES = ("whale", "ship", "ice")
DOCUMENT = Document.from_sections(
    "Voyage",
    [
        ("Part 0", "The whale swims. A ship follows.", [("Part 1", "Under ice.")]),
        ("", "Home again."),
    ],
)
SECTIONS = (("whale", "ship"), ("ice",), ())
ONE_EACH = (("whale",), ("ice",), ())


def collated(objective, processor, *examples):
    generator = torch.Generator().manual_seed(0)
    features = [
        one for example in examples for one in objective.features(processor, example, generator)
    ]
    return features, objective.collate(processor, features)


def words_under(processor, features, anchor):
    """The words of the section or sentence that an anchor stands for, without subsections."""
    parents = features["parent_ids"]
    below = (parents == anchor).nonzero()[:, 0].tolist()
    deeper = [j for i in below for j in (parents == i).nonzero()[:, 0].tolist()]
    return processor.tokenizer.decode(features["input_ids"][[*below, *deeper]])


def test_labels_are_at_the_anchors_of_their_sections(tree_processor):
    objective = AnchorClassification(NAMES, multi_label=True)
    example = Example(document=DOCUMENT, section_labels=SECTIONS)
    [features], batch = collated(objective, tree_processor, example)
    labels = features["labels"]
    anchors = (labels != -100).all(1).nonzero()[:, 0].tolist()
    texts = [words_under(tree_processor, features, anchor) for anchor in anchors]
    for text, word in zip(texts, ("swims", "Under", "Home"), strict=True):
        assert word in text
    assert labels[anchors].tolist() == [[1, 1, 0], [0, 0, 1], [0, 0, 0]]
    assert set(batch) == {"input_ids", "labels", "tree"}
    assert batch["labels"].shape == (1, len(labels), 3)


def test_single_labels_leave_the_others_out(tree_processor):
    objective = AnchorClassification(NAMES)
    example = Example(document=DOCUMENT, section_labels=ONE_EACH)
    encoded, batch = collated(objective, tree_processor, example, example)
    assert batch["labels"].dtype == torch.int64
    assert batch["labels"][batch["labels"] != -100].tolist() == [0, 2, 0, 2]
    assert batch["tree"].level_sizes[0] == 2
    assert batch["labels"].shape == (1, sum(len(one["input_ids"]) for one in encoded))


@pytest.mark.parametrize("query_as", ["section", "global"])
def test_a_query_takes_no_label(query_as, small_tokenizer):
    processor = HDTProcessor(small_tokenizer, query_as=query_as)
    objective = AnchorClassification(NAMES)
    example = Example(document=DOCUMENT, section_labels=ONE_EACH, query="Which ship?")
    [features], _ = collated(objective, processor, example)
    first = int((features["labels"] != -100).nonzero()[0, 0])
    assert "swims" in words_under(processor, features, first)


@pytest.mark.filterwarnings("ignore:a document has more than")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(max_length=st.integers(16, 40))
def test_truncated_parts_do_not_count(max_length, small_tokenizer):
    objective = AnchorClassification(NAMES, multi_label=True)
    example = Example(document=DOCUMENT, section_labels=SECTIONS)
    [whole], _ = collated(objective, HDTProcessor(small_tokenizer), example)
    short = HDTProcessor(small_tokenizer, max_length=max_length)
    [features], _ = collated(objective, short, example)
    length = len(features["labels"])
    assert length <= max_length
    assert torch.equal(features["labels"], whole["labels"][:length])


@pytest.mark.parametrize(
    ("objective", "fields", "message"),
    [
        (AnchorClassification(NAMES), {}, "the example has no section_labels: add them"),
        (
            AnchorClassification(NAMES),
            {"section_labels": SECTIONS[:1]},
            "has 1 section_labels for 3 sections: give a list for each",
        ),
        (
            AnchorClassification(NAMES),
            {"section_labels": SECTIONS},
            r"a section has the labels \['whale', 'ship'\]: give it one, or set multi_label",
        ),
        (
            AnchorClassification(NAMES),
            {"section_labels": ((),) * 3},
            "no section within max_length",
        ),
        (
            AnchorClassification(("a", "b")),
            {"section_labels": ONE_EACH},
            "class 'whale' is not among the labels",
        ),
    ],
)
def test_unusable_examples_are_named(objective, fields, message, tree_processor):
    with pytest.raises(ValueError, match=message):
        collated(objective, tree_processor, Example(document=DOCUMENT, **fields))


def test_only_trees_have_anchors(text_processor):
    example = Example(document=DOCUMENT, section_labels=ONE_EACH)
    with pytest.raises(ValueError, match="TextProcessor has no anchors of sections"):
        collated(AnchorClassification(NAMES), text_processor, example)


def test_options_that_do_not_exist():
    with pytest.raises(ValueError, match="labels must be at least two"):
        AnchorClassification(("a",))


class Fixed:
    """A model that scores a node by the index of its first class."""

    device = torch.device("cpu")

    def __init__(self, classes):
        self.classes = torch.tensor(classes)

    def eval(self):
        pass

    def __call__(self, input_ids, **inputs):
        logits = torch.full((1, input_ids.shape[1], len(NAMES)), -1.0)
        logits[0, torch.arange(input_ids.shape[1]), self.classes] = 1.0
        return SimpleNamespace(logits=logits)


@pytest.mark.filterwarnings("ignore:a document has more than")
@pytest.mark.parametrize("multi_label", [False, True])
def test_parts_are_named_in_their_order(multi_label, small_tokenizer):
    objective = AnchorClassification(NAMES, multi_label)
    example = Example(document=DOCUMENT, section_labels=ONE_EACH)
    processor = HDTProcessor(small_tokenizer)
    features = objective.model_features(processor, example)
    anchors = objective.anchor_nodes(processor, features, example)
    classes = [1] * len(features["input_ids"])
    classes[int(anchors[0])], classes[int(anchors[2])] = 0, 2
    expected = (("whale",), ("ship",), ("ice",))
    assert predict(Fixed(classes), processor, objective, [example]) == [expected]
    end = int(anchors[2])
    short = HDTProcessor(small_tokenizer, max_length=end)
    end = len(objective.model_features(short, example)["input_ids"])
    found = predict(Fixed(classes[:end]), short, objective, [example])
    assert found == [(*expected[:2], ())]


def recipe(data, model, tokenizer, *, multi_label, dev, steps):
    HDTForTokenClassification(
        HDTConfig(
            vocab_size=len(tokenizer),
            pad_token_id=tokenizer.pad_token_id,
            **{"d_model": 32, "d_kv": 16, "d_ff": 48, "num_layers": 2, "num_heads": 2},
            num_labels=2,
        )
    ).model.save_pretrained(model)
    tokenizer.save_pretrained(model)
    entries = {"model.checkpoint": model, "data.train": data, "data.dev": dev}
    entries |= {"data.benchmark": "''", "objective.labels": "[whale, ship]"}
    entries |= {"objective.multi_label": multi_label, "training.gradient_accumulation_steps": 1}
    entries |= {"training.max_steps": steps, "training.learning_rate": "5e-3"}
    entries |= {"model.dropout_rate": 0.0, "model.classifier_dropout": 0.0}
    entries |= {"training.save_strategy": "no", "training.logging_steps": 1}
    quick = {"use_cpu": True, "disable_tqdm": True, "bf16": False, "dataloader_num_workers": 0}
    entries |= {f"training.{name}": value for name, value in quick.items()}
    overrides = [f"{entry}={value}" for entry, value in entries.items()]
    return Recipe.load("hdt-e-anchor-classification", overrides)


def write_voyages(path, numbers, *, multi_label):
    """Sections whose class is the word in them, and with several labels one that has none."""
    lines = []
    for number in numbers:
        kinds = ["whale", "ship", "whale", "ship", "home"][number % 3 :]
        sections = [{"sentences": [f"The {kind} swims home {number} times."]} for kind in kinds]
        labels = [[kind] if kind != "home" else [] for kind in kinds]
        if multi_label:
            sections.append({"sentences": ["The whale follows a ship."]})
            labels.append(["whale", "ship"])
        lines.append(json.dumps({"sections": sections, "section_labels": labels}))
    path.write_text("\n".join(lines))


@pytest.mark.parametrize("multi_label", [False, True])
def test_a_model_learns_the_classes_of_sections(multi_label, tmp_path, small_tokenizer):
    train_file, dev_file = tmp_path / "train.jsonl", tmp_path / "dev.jsonl"
    write_voyages(train_file, range(8), multi_label=multi_label)
    write_voyages(dev_file, range(8, 11), multi_label=multi_label)
    torch.manual_seed(0)
    options = {"multi_label": multi_label, "dev": dev_file, "steps": 90}
    described = recipe(train_file, tmp_path / "model", small_tokenizer, **options)
    trainer = train(described, tmp_path / "out")
    assert isinstance(trainer.model, HDTForTokenClassification)
    losses = [log["loss"] for log in trainer.state.log_history if "loss" in log]
    assert sum(losses[-5:]) < 0.3 * sum(losses[:5])
    assert trainer.model.config.id2label == {0: "whale", 1: "ship"}
    result = evaluate(described, tmp_path / "out", device="cpu")
    assert result.num_examples == 3
    assert result.scores["micro F1"] > 90
    command = ["evaluate", str(tmp_path / "out" / "recipe.yaml"), "--model", str(tmp_path / "out")]
    output = CliRunner().invoke(app, [*command, "--json", "--device", "cpu"])
    assert output.exit_code == 0, output.output
    assert json.loads(output.stdout) == {"examples": 3, **result.scores}
