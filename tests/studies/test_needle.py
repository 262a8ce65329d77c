"""The study of facts that are asked for in front of long texts."""

import argparse
import json
import lzma
from io import BytesIO

import numpy as np
import pytest
import torch

import needle
from benchmarks.report import write_tables
from needle import (
    PAGE,
    SETTING,
    SMOKE,
    Learner,
    Name,
    by_length,
    gather,
    length_table,
    names_of,
    read_with_table,
    segments_table,
)
from needle_data import Batch, Needles
from needle_models import ARMS, SWEEPS, Arm, Reader, anchored, compressed_length
from rounds import Plan
from tests.numerics import relative_error

FIXED = {
    "neighbours": 2,
    "keys": 8,
    "values": 4,
    "read_with": [],
    "start": None,
    "planted": 6,
    "asked": 3,
    "rate": 2e-3,
    "arms": list(ARMS),
}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    random = np.random.default_rng(0)
    buffer = BytesIO()
    np.savez(
        buffer,
        train=random.integers(1, 20, (2, needle.PIECE), dtype=np.uint16),
        held_out=random.integers(1, 20, (2, needle.PIECE), dtype=np.uint16),
        kinds=np.array(["papers", "novels"]),
        strings=np.array([f" {number}" for number in range(20)]),
    )
    path = tmp_path_factory.mktemp("data") / "data.npz.xz"
    path.write_bytes(lzma.compress(buffer.getvalue()))
    return path


@pytest.fixture
def options(data, tmp_path):
    places = {"data": data, "state": tmp_path / "state", "results": tmp_path / "needle.json"}
    return argparse.Namespace(**{**SMOKE, **FIXED, **places})


@pytest.fixture
def task(options):
    return Needles.from_options(options, "cpu")


def reader(arm, task, options):
    torch.manual_seed(0)
    return Reader(arm, task.vocabulary, task.values, options).double()


def test_answers_are_in_the_text_and_keys_differ(task):
    batch = task.texts(1, 50, 256, np.random.default_rng(0))
    assert batch.ids.shape == (50, 256)
    asked = batch.ids[:, : task.asked] - (task.words + task.keys + task.values)
    planted = batch.ids.gather(1, batch.places) - task.words
    assert all(len(set(row)) == task.planted for row in planted.tolist())
    assert all(len(set(row)) == task.planted for row in batch.places.tolist())
    found = asked[:, :, None] == planted[:, None]
    assert (found.sum(2) == 1).all()
    values = batch.values - task.words - task.keys
    assert torch.equal((found * values[:, None]).sum(2), batch.answers)
    assert len(batch.answers.unique()) == task.values
    assert batch.places.min() >= task.asked
    assert (batch.ids < task.vocabulary - 2).all()
    assert ((batch.ids >= task.words).sum(1) == task.asked + task.planted).all()
    assert task.texts(1, 2, 64, np.random.default_rng(0)).places.shape == (2, 2)


def test_lengths_double_and_every_model_sees_the_same_batches(task):
    lengths = [task.training_batch(step, 0).ids.shape[1] for step in range(12)]
    assert lengths[:8] == [64] * 4 + [128] * 4
    assert {*lengths[8:]} <= {64, 128}
    again = task.training_batch(9, 0)
    assert all(map(torch.equal, again, task.training_batch(9, 0)))
    assert not torch.equal(again.places, task.training_batch(9, 1).places)
    batches = [*task.test_batches(128, 3)]
    assert [len(batch.ids) for batch in batches] == [2, 1]


@pytest.mark.parametrize("name", ARMS)
def test_an_arm_reads_each_text_alone_and_trains_all_it_has(name, task, options):
    model = reader(ARMS[name], task, options)
    batch = task.texts(0, 3, 100, np.random.default_rng(0))
    together = model.eval()(batch)
    assert together.shape == (3, task.asked, task.values)
    for i in range(3):
        alone = model(Batch(*(tensor[i : i + 1] for tensor in batch)))
        assert relative_error(together[i : i + 1], alone) < 1e-5  # HDT's norms are in float32
    together.sum().backward()
    untrained = [name for name, p in model.named_parameters() if p.requires_grad and p.grad is None]
    assert untrained == []


@pytest.mark.parametrize("name", ["VCC", "Fovea", "HDT", "dense"])
def test_words_have_no_positions(name, task, options):
    """Two words change places within a sentence and a block: nothing changes."""
    model = reader(ARMS[name], task, options).eval()
    batch = task.texts(0, 1, 128, np.random.default_rng(1))
    place = next(
        p for p in range(32 + 3, 60) if (batch.ids[0, [p, p + 1]] < task.words).all() and p % 8 == 4
    )
    swapped = batch.ids.clone()
    swapped[0, [place, place + 1]] = batch.ids[0, [place + 1, place]]
    assert relative_error(model(batch), model(batch._replace(ids=swapped))) < 1e-6


def test_vcc_that_sees_all_blocks_is_dense(task, options):
    options.segment = 1000
    dense, vcc = (reader(arm, task, options).eval() for arm in (ARMS["dense"], Arm("VCC", 32, 99)))
    vcc.load_state_dict(dense.state_dict())
    batch = task.texts(0, 2, 100, np.random.default_rng(0))
    assert relative_error(vcc(batch), dense(batch)) < 1e-6


@pytest.mark.parametrize(("block", "count"), [(32, 2), (16, 3), (64, 9)])
def test_tokens_of_compressed_layers_are_counted(block, count, task, options):
    arm = Arm("VCC", block, count)
    encoder = reader(arm, task, options).encoder.eval()
    ids = torch.randint(20, (1, 256 + task.asked))
    questions = torch.arange(ids.shape[1])[None] < task.asked
    output = encoder(ids, vip_mask=questions, output_vip_scores=True)
    sees = (1 / output.resolutions[-1].double()).sum().item()
    assert compressed_length(arm, ids.shape[1], task.asked) == pytest.approx(sees)


def test_longformer_with_a_wide_window_is_dense(task, options):
    options.segment = 1000
    arms = ARMS["dense"], ARMS["Longformer"]
    dense, longformer = (reader(arm, task, options).eval() for arm in arms)
    state = dense.state_dict()
    theirs = longformer.state_dict()
    names = {
        "norm.weight": "layer.0.layer_norm.weight",
        "feed_forward": "layer.1",
    } | {
        f"attention.{x}{kind}.weight": f"layer.0.SelfAttention.{x}.weight"
        for x in "qkvo"
        for kind in ("", "_global")
    }
    for name in theirs:
        source = name.replace("final_norm", "encoder.final_layer_norm")
        source = source.replace("encoder.layers.", "encoder.encoder.block.")
        for ours, t5 in names.items():
            if f".{ours}" in source and "encoder.encoder.block" in source:
                source = source.replace(f".{ours}", f".{t5}")
                break
        theirs[name] = state[source]
    longformer.load_state_dict(theirs)
    batch = task.texts(0, 2, 100, np.random.default_rng(0))
    assert relative_error(longformer(batch), dense(batch)) < 1e-6


def test_global_projections_begin_as_copies(task, options):
    attention = reader(ARMS["Longformer"], task, options).encoder.layers[1].attention
    assert torch.equal(attention.k.weight, attention.k_global.weight)
    assert attention.k.weight.data_ptr() != attention.k_global.weight.data_ptr()


def test_questions_hang_under_the_documents_anchor():
    tree = anchored(length=7, asked=2, sentence=2, device=torch.device("cpu"))
    # The root, two questions, and the sentences 3 (4, 5), 6 (7, 8) and 9 (10).
    assert tree.parents.tolist() == [-1, 0, 0, 0, 3, 3, 0, 6, 6, 0, 9]
    assert tree.tokens.tolist() == [1, 2, 4, 5, 7, 8, 10]
    assert tree.anchors[[0, 3, 6, 9]].tolist() == [0, 1, 1, 1]


@pytest.mark.parametrize("arm", ["VCC", "HDT"])
def test_trainings_resume_and_are_tested(arm, options):
    plan = Plan(3, 4)
    learner = Learner(Name(arm, 1), options)
    learner.train(2, None)
    learner.save()
    learner.train(4, plan)
    resumed = Learner(Name(arm, 1), options)
    assert resumed.log["step"] == 2
    resumed.train(4, plan)
    assert resumed.log["curve"] == learner.log["curve"]
    resumed.test(256)
    right = resumed.log["right"]["256"]
    assert len(right) == 4
    assert all(0 <= n <= options.asked for n in right)
    assert Learner(Name(arm, 1), options).log["right"] == {"256": right}


def test_vcc_can_start_from_dense_attention(options, tmp_path):
    dense = Learner(Name("dense", 1), options)
    dense.train(2, None)
    dense.save()
    options.start, options.state = options.state, tmp_path / "continued"
    vcc = Learner(Name("VCC", 1), options)
    for name, parameter in dense.model.named_parameters():
        assert torch.equal(vcc.model.get_parameter(name), parameter)


def test_vcc_is_tested_with_other_numbers_of_blocks(options):
    learner = Learner(Name("VCC, 2 of 32", 0), options)
    learner.save()
    config = learner.model.encoder.config
    for count, used in ((5, 5), (None, 2)):
        learner.test(256, count)
        assert config.num_fine_blocks == used
    assert {*learner.log["right"]} == {"256", "256, 5 blocks"}
    other = Learner(Name("HDT", 0), options)
    other.save()
    other.test(256, 5)
    assert other.log["right"] == {}


def test_right_answers_are_counted(options):
    learner = Learner(Name("dense", 0), options)
    learner.save()

    class Perfect(torch.nn.Module):
        def forward(self, batch):
            return torch.nn.functional.one_hot(batch.answers, 4).float()

    learner.model = Perfect()
    learner.test(64)
    assert learner.log["right"]["64"] == [options.asked] * 4


def results(options, lengths_of):
    """Results of three arms, whose trainings are right in as many of 3 answers as their seed."""
    names = names_of(options)
    for name in names:
        if (lengths := lengths_of(name)) is None:
            continue
        learner = Learner(name, options)
        learner.train(1, Plan.of_steps(4))
        learner.log["right"] = {str(length): [name.seed + 1] * 4 for length in lengths}
        learner.save()
    gather(options, names)
    return json.loads(options.results.read_text())


def test_results_name_what_is_missing_and_fill_the_page(options, tmp_path, monkeypatch):
    options.arms = ["VCC", "dense", "VCC, 2 of 32", "HDT"]
    half = {Name("dense", 1): [64], Name("HDT", 1): None}
    saved = results(options, lambda name: half.get(name, [64, 256]))
    assert saved["missing"] == ["dense, seed 1", "HDT, seed 1"]
    assert not saved["finished"]
    assert {*SETTING} == {*saved["results"]["setting"]}
    found = by_length(saved["results"], "VCC")
    assert found == {64: pytest.approx([100 / 3, 200 / 3]), 256: pytest.approx([100 / 3, 200 / 3])}
    assert [*by_length(saved["results"], "dense")] == [64]  # seed 1 is missing at 256
    assert by_length(saved["results"], "HDT") == {}
    made = {"length": length_table(saved["results"])}
    page = tmp_path / "page.md"
    page.write_text("".join(f"<!-- table: {name} -->\n\n" for name in made))
    write_tables(page, made)
    lines = [line.replace(" ", "") for line in page.read_text().splitlines()]
    assert lines.count("|VCC|50.0±23.6|50.0±23.6|") == 1
    assert lines.count("|dense|50.0±23.6|–|") == 1
    assert "HDT" not in made["length"]
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(needle, "IMAGE", tmp_path / "images" / "needle.png")
    needle.plot(saved["results"])
    assert needle.IMAGE.stat().st_size > 1000


def test_page_has_a_place_for_every_table():
    page = PAGE.read_text(encoding="utf-8")
    for name in (
        "length",
        "segments",
        "small budget",
        "read with",
    ):
        assert f"<!-- table: {name} -->" in page


def test_some_arms_have_all_seeds_and_the_others_one(options):
    names = names_of(options)
    assert sum(name.arm in SWEEPS for name in names) == len(SWEEPS)
    others = len(ARMS) - len(SWEEPS)
    assert len(names) == len({*names}) == options.seeds * others + len(SWEEPS)
    options.sweep_seeds = 3
    assert sum(name.arm in SWEEPS for name in names_of(options)) == 3 * len(SWEEPS)


def test_segments_have_a_size_of_their_own(task, options):
    sizes = {
        name: reader(ARMS[name], task, options).encoder.config.segment_size
        for name in ("VCC", "VCC, segments of 64", "VCC, segments of 64, 2 of 32")
    }
    assert sizes == {
        "VCC": options.segment,
        "VCC, segments of 64": 64,
        "VCC, segments of 64, 2 of 32": 64,
    }


def test_results_of_segments_have_tables_of_their_own(options):
    options.arms = ["VCC", "VCC, segments of 64", "VCC, segments of 64, 2 of 32"]
    options.read_with = [5]
    saved = results(options, lambda name: [64, 256, "64, 5 blocks"])["results"]
    made = [segments_table(saved), read_with_table(saved)]
    lines = [line.replace(" ", "") for table in made for line in table.splitlines()]
    for line in (
        "|VCC,segmentsof32|50.0±23.6|50.0±23.6|",
        "|VCC,segmentsof64|50.0±23.6|50.0±23.6|",
        "|VCC,segmentsof64,2of32|33.3|33.3|",
        "|VCC,segmentsof64|5|50.0±23.6|–|",
    ):
        assert lines.count(line) == 1
