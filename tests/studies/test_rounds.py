"""Trainings side by side, in rounds."""

import json
import multiprocessing
import time
from functools import partial

import pytest

from rounds import Plan, Trainings, train_in_rounds


@pytest.fixture
def forking(monkeypatch):
    """Fork processes, which have imported torch then; one test spawns its own, as scripts do."""
    context = multiprocessing.get_context("fork")
    monkeypatch.setattr(multiprocessing, "get_context", {"spawn": context}.__getitem__)


class Counting:
    """A training that counts its steps; one fails on the way."""

    def __init__(self, name, folder):
        self.file = folder / f"{name}.json"
        self.fails = name == "failing"
        done = json.loads(self.file.read_text()) if self.file.exists() else []
        self.log = {"step": len(done), "rates": done}

    def train(self, until, plan):
        time.sleep(0.02)
        steps = range(self.log["step"], until)
        self.log["rates"] += [plan.rate(step) if plan else 1.0 for step in steps]
        self.log["step"] = max(self.log["step"], until)
        if self.fails and until > 4:
            raise RuntimeError("out of memory")

    def save(self):
        self.file.write_text(json.dumps(self.log["rates"]))


def test_rates_fall_to_zero():
    plan = Plan.of_steps(8)
    assert plan == Plan(6, 8)
    assert [plan.rate(step) for step in range(9)] == [1.0] * 7 + [0.5, 0.0]


@pytest.mark.usefixtures("forking")
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_all_take_as_many_steps_and_one_that_fails_is_left_out(tmp_path, capfd):
    make = partial(Counting, folder=tmp_path)
    trainings = Trainings(make, ["one", "failing", "two"], processes=2)
    file = tmp_path / "plan.json"
    end = time.perf_counter() + 60
    assert train_in_rounds(trainings, file, end, end, every=3, steps=8)
    assert trainings.logs == {
        name: {"step": 8, "rates": [1.0] * 7 + [0.5]} for name in ("one", "two")
    }
    trainings.ask("save")
    trainings.close()
    assert "failing has failed" in capfd.readouterr().err
    resumed = Trainings(make, ["one", "three"], processes=1)
    assert train_in_rounds(resumed, file, end, end, every=3)  # by the same plan
    assert resumed.logs["three"] == resumed.logs["one"]
    resumed.close()


@pytest.mark.usefixtures("forking")
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_plan_is_made_when_the_rest_of_the_time_is_for_falling_rates(tmp_path):
    trainings = Trainings(partial(Counting, folder=tmp_path), ["one"], processes=1)
    file = tmp_path / "plan.json"
    end = time.perf_counter() + 1.5
    assert train_in_rounds(trainings, file, end, end + 60, every=2)
    trainings.close()
    plan = Plan(**json.loads(file.read_text()))
    assert 0 < plan.decay_from < plan.steps
    assert (plan.steps - plan.decay_from) / plan.steps == pytest.approx(0.25, abs=0.1)


def test_training_stops_at_the_limit_and_is_saved(tmp_path):
    trainings = Trainings(partial(Counting, folder=tmp_path), ["one"], processes=1)
    file = tmp_path / "plan.json"
    now = time.perf_counter()
    assert not train_in_rounds(trainings, file, now, now + 0.5, every=2, steps=1000)
    trainings.close()
    steps = len(json.loads((tmp_path / "one.json").read_text()))
    assert 0 < steps < 1000
