import json

import pytest

from egad_protocol import Method, Protocol, draw, few_shot, table
from finetune import Tuning, encode, fit, write
from foveate import Document
from foveate.data import Example
from foveate.detectors import given_keywords
from foveate.models.speed_ups import speed_up
from foveate.preprocessing import LEDProcessor
from tests.led import bpe, led

TEXTS = [
    "The cod is a fish of cold seas. It eats herring.",
    "Eels are long. Nobody has seen them breed in the sea.",
    "Herring swim in schools. Whales eat them.",
    "The harbour is small. Boats come in at night.",
]
EXAMPLES = [
    Example(id=str(i), document=Document.from_text(text), references=(text.partition(".")[0],))
    for i, text in enumerate(TEXTS)
]
TUNING = Tuning(epochs=2, learning_rate=1e-2, batch_size=2, max_target_length=24, beams=1)
PROTOCOL = Protocol(examples=(0, 2), runs=2, max_length=128, tuning=TUNING)
METHODS = [Method("tfidf", 0), Method("random", 2), Method("own", 1)]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    folder = tmp_path_factory.mktemp("led")
    tokenizer = bpe(TEXTS)
    tokenizer.save_pretrained(folder)
    led(len(tokenizer)).save_pretrained(folder)
    return folder


def run(checkpoint, output, **changed):
    arguments = {"methods": METHODS, "protocol": PROTOCOL, "device": "cpu"}
    arguments |= {"detectors": {"own": given_keywords(["cod"])}} | changed
    return few_shot(checkpoint, EXAMPLES, EXAMPLES[2:], EXAMPLES[:2], output, **arguments)


@pytest.fixture(scope="module")
def results(checkpoint, tmp_path_factory):
    output = tmp_path_factory.mktemp("runs") / "runs.json"
    return run(checkpoint, output), output


def test_every_run_once_and_what_nothing_changes_once(results):
    runs, output = results
    assert [(r["examples"], r["seed"], r["detector"]) for r in runs] == [
        (0, 0, "tfidf"),
        (0, 0, "random"),
        (0, 0, "own"),
        (0, 1, "random"),
        (2, 0, "tfidf"),
        (2, 0, "random"),
        (2, 0, "own"),
        (2, 1, "tfidf"),
        (2, 1, "random"),
        (2, 1, "own"),
    ]
    assert [len(r["validation_loss"]) for r in runs] == [0] * 4 + [2] * 6
    assert json.loads(output.read_text())["runs"] == runs
    assert len(list(output.parent.iterdir())) == 1


def test_it_goes_on_where_it_stopped_and_comes_out_the_same(results, checkpoint, tmp_path):
    runs, output = results
    stopped = json.loads(output.read_text())
    del stopped["runs"][-1], stopped["runs"][4]
    again = tmp_path / "runs.json"
    again.write_text(json.dumps(stopped))
    loaded = []

    def prepare(model):
        loaded.append(speed_up(model))
        return model

    for one in run(checkpoint, again, prepare=prepare):
        [same] = [r for r in runs if all(r[k] == one[k] for k in ("examples", "seed", "detector"))]
        losses = pytest.approx(same["validation_loss"], rel=1e-5)
        others = {"seconds": 0, "validation_loss": []}
        assert one | others == same | others
        assert one["validation_loss"] == losses
    assert len(loaded) == 2


def test_results_of_another_setting_are_not_touched(results, checkpoint):
    _, output = results
    before = output.read_bytes()
    with pytest.raises(ValueError, match="holds results of another setting"):
        run(checkpoint, output, protocol=Protocol(runs=1))
    assert output.read_bytes() == before


@pytest.mark.parametrize("name", ["own", "random"])
def test_results_of_another_detector_of_the_name_are_not_touched(results, checkpoint, name):
    _, output = results
    before = output.read_bytes()
    detectors = {"own": given_keywords(["cod"])} | {name: given_keywords(["boats"])}
    methods = [method for method in METHODS if method.detector == name]
    with pytest.raises(ValueError, match=f"holds results of another detector '{name}'"):
        run(checkpoint, output, methods=methods, detectors=detectors)
    assert output.read_bytes() == before


def test_the_table_has_mean_and_spread():
    common = {"detector": "tfidf", "keywords": 10, "examples": 10, "rouge2": 0.0, "rougeL": 0.0}
    [row] = table([{**common, "rouge1": 1.0}, {**common, "rouge1": 3.0}])
    assert (row["runs"], row["rouge1"], row["rouge1_spread"]) == (2, 2.0, pytest.approx(2**0.5))
    [row] = table([{**common, "rouge1": 1.0}])
    assert row["rouge1_spread"] == 0


def test_samples_depend_on_the_seed_alone():
    assert draw(EXAMPLES, 2, 0) == draw(EXAMPLES, 2, 0)
    assert any(draw(EXAMPLES, 2, 0) != draw(EXAMPLES, 2, seed) for seed in range(1, 5))
    assert sorted(example.id for example in draw(EXAMPLES, 100, 3)) == list("0123")


def test_the_model_is_put_back_to_its_best_epoch():
    """At such a rate the loss rises again."""
    tokenizer = bpe(TEXTS)
    model = led(len(tokenizer))
    processor = LEDProcessor(tokenizer)
    targets = [example.references[0] for example in EXAMPLES]
    features = encode(processor, [example.document for example in EXAMPLES], targets)
    tuning = Tuning(epochs=5, learning_rate=1.0, batch_size=2)
    losses = fit(model, processor.pad, features[:2], features[2:], tuning, seed=0)
    assert len(losses) == 5
    assert losses.index(min(losses)) < 4
    assert model.eval()(**processor.pad(features[2:])).loss.item() == pytest.approx(min(losses))


def test_a_model_writes_what_it_has_learnt():
    tokenizer = bpe(TEXTS)
    model = led(len(tokenizer))
    processor = LEDProcessor(tokenizer, num_keywords=1, detector=given_keywords(["cod"]))
    targets = [example.references[0] for example in EXAMPLES[:2]]
    features = encode(processor, [example.document for example in EXAMPLES[:2]], targets)
    tuning = Tuning(epochs=60, learning_rate=3e-2, batch_size=2, max_target_length=40, beams=2)
    fit(model, processor.pad, features, features, tuning, seed=0)
    unlabelled = encode(processor, [example.document for example in EXAMPLES[:2]])
    assert write(model, processor, unlabelled, tuning) == targets


def test_what_cannot_be_tried_is_said(checkpoint, tmp_path):
    with pytest.raises(ValueError, match="nothing to train, to validate or to test on"):
        few_shot(checkpoint, EXAMPLES, [], EXAMPLES, tmp_path / "runs.json")
    with pytest.raises(ValueError, match="there is no method 'nope'"):
        run(checkpoint, tmp_path / "runs.json", methods=[Method("nope", 1)])
    with pytest.raises(FileNotFoundError, match="cannot be written"):
        run(checkpoint, tmp_path / "nowhere" / "runs.json")
