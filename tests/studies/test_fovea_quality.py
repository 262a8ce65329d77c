"""The study of what Fovea's attention learns."""

import argparse
import json
import lzma
from io import BytesIO

import numpy as np
import pytest
import torch

import fovea_quality
import fovea_studies
from benchmarks.report import write_tables
from fovea_arms import ARMS, NEIGHBOURS, keys_and_radius, window_keys
from fovea_quality import SMOKE, Learner, gather, run_folder
from fovea_scores import difference, tables
from fovea_studies import IGNORED, STUDIES, hidden_facts, word_groups
from fovea_texts import Texts, mask_words, word_starts
from rounds import Plan

STRINGS = [
    "<mask>",
    " the",
    " whale",
    "bone",
    ",",
    " 12",
    "7",
    " Whale",
    " sea",
    "\n",
    " ice",
    "berg",
]
THE, WHALE, BONE, COMMA, CAPITAL, SEA, ICE, BERG = 1, 2, 3, 4, 7, 8, 10, 11


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    random = np.random.default_rng(0)
    buffer = BytesIO()
    np.savez(
        buffer,
        train=random.integers(1, len(STRINGS), (12, 160), dtype=np.uint16),
        held_out=random.integers(1, len(STRINGS), (6, 160), dtype=np.uint16),
        kinds=np.array(["papers"] * 3 + ["novels"] * 3),
        strings=np.array(STRINGS),
    )
    path = tmp_path_factory.mktemp("data") / "data.npz.xz"
    path.write_bytes(lzma.compress(buffer.getvalue()))
    return path


@pytest.fixture
def options(data, tmp_path):
    fixed = {"head": 16, "rate": 2e-3, "draws": 2, "words": 4, "arms": list(ARMS), "seeds": [0]}
    places = {"data": data, "state": tmp_path / "state", "results": tmp_path / "results"}
    return argparse.Namespace(**{**SMOKE, **fixed, **places, "study": "words", "start": None})


def test_words_begin_after_spaces_and_where_signs_change(options):
    study = STUDIES["words"](options, "cpu")
    ids = torch.tensor([[WHALE, BONE, COMMA, BONE, 5, 6, BONE, 9, THE]])
    starts = word_starts(study.signs[ids])[0].tolist()
    assert starts == [True, False, True, True, True, False, True, True, True]


def test_whole_words_are_masked():
    starts = torch.zeros(3, 40, dtype=torch.bool)
    starts[:, ::4] = True
    positions = mask_words(starts, 8, torch.Generator().manual_seed(0))
    assert positions.shape == (3, 8)
    for row in positions.tolist():
        assert [place % 4 for place in row] == [0, 1, 2, 3] * 2
    cut = mask_words(starts, 7, torch.Generator().manual_seed(0))
    for row in cut.tolist():
        assert sorted(row)[:3] == [row[0], row[0] + 1, row[0] + 2]
    assert len({tuple(row) for row in positions.tolist()}) > 1


def test_masked_words_are_grouped_by_the_nearest_visible_occurrence(options, monkeypatch):
    monkeypatch.setattr(fovea_studies, "DISTANCES", (16, 32))
    options.draws, options.block, options.length = 1, 8, 128
    study = STUDIES["words"](options, "cpu")
    piece = np.full(128, COMMA)
    piece[[3, 4]] = WHALE, BONE  # masked; once more at 30, capitalized; masked at 5
    piece[[5, 6]] = WHALE, BONE
    piece[[30, 31]] = CAPITAL, BONE
    piece[40] = SEA  # masked; elsewhere only at the other end
    piece[127] = SEA
    piece[[60, 61]] = ICE, BERG  # masked; nowhere else: ice is another word
    piece[[64]] = ICE
    positions = np.array([3, 4, 5, 6, 40, 60, 61, 62])
    study.held_out, study.number = torch.from_numpy(piece)[None], len(positions)
    study.texts = Texts(study.texts.train, piece[None], np.array(["papers"]), study.texts.strings)
    batch = torch.from_numpy(piece)[None], torch.from_numpy(positions)[None], torch.zeros(1, 8)
    monkeypatch.setattr(study, "held_out_batches", lambda: [batch])
    groups = {
        name: values[0, 0].nonzero()[0].tolist() for name, values in word_groups(study, 8).items()
    }
    assert groups["all"] == list(range(8))
    assert groups["words"] == [0, 1, 2, 3, 4, 5, 6]  # not the comma
    assert groups["up to 16"] == []
    assert groups["16–32"] == [0, 1, 2, 3]
    assert groups["beyond 32"] == [4]
    assert groups["nowhere"] == [5, 6]
    assert groups["beyond 512"] == []
    # Block 5 of 16: to its right nodes of 1, 2 and 4 blocks, then three are left, which k=1 hides.
    assert groups["hidden k=1"] == [4]
    assert groups["hidden k=4"] == []


@pytest.mark.parametrize("name", ARMS)
def test_attended_keys_are_counted_and_equal(name):
    length, block = 512, 16
    arm = ARMS[name]
    keys, radius = keys_and_radius(arm, length, block)
    if radius is not None:
        near = torch.arange(length)
        pairs = ((near[:, None] - near).abs() <= radius).sum() / length
        assert window_keys(length, radius) == pytest.approx(pairs.item())
        fovea = keys_and_radius(ARMS[f"Fovea k={arm.k_neighbours} full"], length, block)[0]
        assert keys == pytest.approx(fovea, abs=1)
    assert keys <= length


def test_facts_are_at_the_distance_and_answered_once(options):
    options.study = "facts"
    study = STUDIES["facts"](options, "cpu")
    ids, questions, facts, labels = study.texts(1, 50, 64, np.random.default_rng(0), 16)
    assert ids.shape == (50, 64)
    assert (np.abs(questions - facts) == 16).all()
    assert (questions > facts).any()
    assert (questions < facts).any()
    intact = labels != IGNORED
    assert 0.5 < intact.mean() < 1
    asked = np.take_along_axis(ids, questions, 1) - study.ask
    planted = np.take_along_axis(ids, facts, 1) - study.fact
    assert (planted // study.words == asked)[intact].all()
    assert (planted % study.words == labels)[intact].all()
    apart = study.texts(0, 50, 64, np.random.default_rng(0))[1:3]
    assert len(np.unique(np.abs(apart[0] - apart[1]))) > 20


def test_what_the_published_coverage_hides_is_far(options):
    options.study, options.distances = "facts", [4, 64]
    study = STUDIES["facts"](options, "cpu")
    hidden = {k: hidden_facts(study, options.block, k) for k in NEIGHBOURS}
    assert not any(values[0].any() for values in hidden.values())
    # Of 16 blocks, the node that reaches 8 blocks away needs the 15 beside the first or the last.
    blocks = study.held_out(64)[1] // options.block
    np.testing.assert_array_equal(hidden[1][1], (blocks != 0) & (blocks != 15))
    assert not hidden[4][1].all()


@pytest.mark.parametrize("study", STUDIES)
@pytest.mark.parametrize("name", ARMS)
def test_arms_learn_resume_and_are_evaluated(study, name, options):
    options.study = study
    learner = Learner((name, 0), options)
    learner.train(2, None)
    learner.save()
    learner.train(4, Plan(3, 4))
    resumed = Learner((name, 0), options)
    assert resumed.log["step"] == 2
    resumed.train(4, Plan(3, 4))
    assert resumed.log["curve"] == learner.log["curve"]
    resumed.finish()
    scores = np.load(run_folder(options, name, 0) / "scores.npy")
    assert np.isfinite(scores).mean() > 0.5
    assert scores.shape[1] in (options.examples, 6)


def test_fovea_begins_with_the_weights_of_dense_attention(options, tmp_path):
    dense = Learner(("dense", 0), options)
    dense.train(2, None)
    dense.save()
    options.start, options.state = options.state, tmp_path / "converted"
    fovea = Learner(("Fovea k=1 full", 0), options)
    trained = dict(dense.model.named_parameters())
    for name, parameter in fovea.model.named_parameters():
        parts = [name] if name in trained else [name.replace(".kv.", f".{x}.") for x in "kv"]
        assert torch.equal(parameter, torch.cat([trained[part] for part in parts]))


def test_held_out_losses_are_those_of_the_masks(options):
    learner = Learner(("dense", 0), options)
    study, model = learner.study, learner.model.eval()
    scores = study.evaluate(model)
    ids, positions, truth = next(iter(study.held_out_batches()))
    assert (ids.gather(1, positions) == 0).all()
    with torch.no_grad():
        states = model.encoder(input_ids=ids[:1]).last_hidden_state[0, positions[0]]
        losses = -model.output(states).log_softmax(-1)[torch.arange(study.number), truth[0]]
    np.testing.assert_allclose(scores[0, 0], losses, rtol=1e-4)


def test_differences_are_paired():
    random = np.random.default_rng(0)
    noise = random.normal(size=(2, 30, 5))
    group = np.ones(noise.shape, dtype=bool)
    group[:, :, 3:] = False
    found = difference(noise + 0.5, noise, group, (0, 2))
    assert found == {"mean": 0.5, "low": 0.5, "high": 0.5}
    noise[0, 0, 0] = np.nan
    assert difference(noise + 0.5, noise, group, (0, 2))["mean"] == 0.5
    assert difference(noise, noise, np.zeros_like(group), (0, 2)) is None


@pytest.mark.parametrize("study", STUDIES)
def test_results_name_what_is_missing_and_fill_the_page(study, options, tmp_path, monkeypatch):
    options.study, options.seeds = study, [0, 1]
    for name, seed in (("Fovea k=1 full", 0), ("Fovea k=1 paper", 0), ("Fovea k=1 full", 1)):
        learner = Learner((name, seed), options)
        learner.train(1, None)
        learner.finish()
    gather(options)
    saved = json.loads((options.results / f"fovea_quality-{study}.json").read_text())["results"]
    assert not saved["finished"]
    assert "dense, seed 0" in saved["missing"]
    assert "Fovea k=1 paper, seed 1" in saved["missing"]
    assert "Fovea k=1 full, seed 1" not in saved["missing"]
    (pair,) = saved["differences"]
    assert pair["seeds"] == [0]
    found = pair["difference"]["all"]
    assert found["a"] - found["b"] == pytest.approx(found["mean"], abs=2e-5)
    assert found["low"] <= found["mean"] <= found["high"]
    found = tables(options.results)
    page = tmp_path / "page.md"
    page.write_text("".join(f"<!-- table: {name} -->\n\n" for name in found))
    write_tables(page, found)
    compared = page.read_text().count("| Fovea k=1 full − Fovea k=1 paper |")
    assert compared == (study == "facts")


def test_page_has_a_place_for_every_table():
    page = fovea_quality.PAGE.read_text(encoding="utf-8")
    for name in ("words", "facts", "facts, differences", "facts, hidden"):
        assert f"<!-- table: {name} -->" in page
