"""Encoders that are measured in turns on a CPU."""

import argparse
import json
from typing import ClassVar

import forms_on_cpu
import pytest
import torch
from forms import FORWARD, STEP, Encoder
from torch import nn
from transformers.modeling_outputs import BaseModelOutput


class Toy(nn.Module):
    """An encoder of one layer, which notes in what order encoders are called."""

    calls: ClassVar[list[str]] = []

    def __init__(self, name):
        super().__init__()
        self.name = name
        self.embeddings = nn.Embedding(forms_on_cpu.VOCABULARY, 4)

    def forward(self, input_ids):
        self.calls.append(self.name)
        return BaseModelOutput(self.embeddings(input_ids) * (2 if self.name == "double" else 1))


def toy(name, **fields):
    return Encoder(lambda batch, length: (Toy(name), {}), **fields)


@pytest.fixture
def encoders(monkeypatch):
    monkeypatch.setattr(forms_on_cpu, "in_new_process", lambda function, *its: function(*its))
    monkeypatch.setattr(Toy, "calls", [])
    return {
        "one": toy("one", weights="toys"),
        "double": toy("double", weights="toys", ours=True),
        "other": toy("other"),
        "FlexAttention": toy("flex"),
        "apart": toy("apart", group="another"),
    }


def options(**changed):
    fields = {"encoders": [""], "lengths": [8, 16], "parts": [FORWARD], "minutes": 1.0, "turns": 3}
    return argparse.Namespace(**fields | changed)


def test_encoders_of_a_group_take_turns(encoders, tmp_path):
    target = tmp_path / "results.json"
    forms_on_cpu.run_on_cpu(encoders, options(), target)
    turn = ["one", "double", "other"]
    assert Toy.calls[: 4 * 3] == turn * 4  # one more than is measured
    assert "flex" not in Toy.calls
    saved = json.loads(target.read_text())
    assert saved["finished"]
    rows = {(row["encoder"], row["tokens"]): row for row in saved["results"]["rows"]}
    assert [*rows] == [(name, n) for n in (8, 16) for name in (*turn, "apart")]
    for row in rows.values():
        low, high = row["ms quartiles"]
        assert 0 < low <= row["ms"] <= high
        assert row["runs"] == 3
        assert row["part"] == FORWARD
    assert rows["double", 8]["difference"] == pytest.approx(1.0)  # twice as long a vector
    assert rows["one", 8]["difference"] is None
    assert rows["other", 8]["difference"] is None  # it has weights of its own


def test_only_what_is_asked_for_is_measured(encoders, tmp_path):
    target = tmp_path / "results.json"
    forms_on_cpu.run_on_cpu(encoders, options(encoders=["o"], lengths=[8], parts=[STEP]), target)
    saved = json.loads(target.read_text())
    assert {(row["encoder"], row["part"]) for row in saved["results"]["rows"]} == {
        ("one", STEP),
        ("other", STEP),
    }
    assert torch.is_grad_enabled()


def test_what_there_was_no_time_for_is_missing(encoders, tmp_path, monkeypatch):
    target = tmp_path / "results.json"
    forms_on_cpu.run_on_cpu(encoders, options(encoders=["one"]), target, [1, 2])
    assert len(json.loads(target.read_text())["results"]["rows"]) == 4
    seconds = iter([0.0, 0.0, 61.0])
    monkeypatch.setattr(forms_on_cpu.time, "monotonic", lambda: next(seconds))
    forms_on_cpu.run_on_cpu(encoders, options(encoders=["one"]), target)
    saved = json.loads(target.read_text())
    assert saved["missing"] == ["16 tokens × 1"]
    assert not saved["finished"]
