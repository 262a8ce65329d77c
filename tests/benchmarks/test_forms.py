import json
from pathlib import Path

import encoders
import forms
import fovea
import pytest
import report
import speed_up
import torch
import vcc
from forms import BOTH, CAPTURED, COMPILED, EAGER, FORMS, FORWARD, STEP, Encoder
from torch import nn
from transformers.modeling_outputs import BaseModelOutput


class Toy(nn.Module):
    def __init__(self):
        super().__init__()
        self.config = type("Config", (), {"vocab_size": 20})
        self.embeddings = nn.Embedding(20, 4)
        self.layers = nn.ModuleList(nn.Sequential(nn.Linear(4, 4), nn.ReLU()) for _ in range(2))

    def forward(self, input_ids):
        hidden_states = self.embeddings(input_ids)
        for layer in self.layers:
            hidden_states = layer(hidden_states)
        return BaseModelOutput(hidden_states)


def toy(batch, length):
    return Toy(), {}


class FakeWorker:
    """Answers as it is told to: times by name, or by name and form, or reasons."""

    def __init__(self, answers):
        self.answers, self.asked = answers, []

    def measure(self, one):
        self.asked.append((one.name, one.tokens, one.part, one.form))
        answer = self.answers.get((one.name, one.form), self.answers.get(one.name))
        return {"failed": answer} if isinstance(answer, str) else {"ms": answer, "failed": None}


def rows_of(encoders_by_name, answers, lengths, minutes=1.0, slowest=10.0, **wanted):
    worker = FakeWorker(answers)
    plan = forms.plan(encoders_by_name, lengths, **wanted)
    found = list(forms.measure_all(plan, worker, minutes, slowest))
    return found[-1][0] if found else [], worker, found


def test_layers_are_the_members_of_the_outermost_lists():
    model = Toy()
    for layer in model.layers:
        layer.inner = nn.ModuleList([nn.Linear(4, 4)])
    assert forms.layers(nn.ModuleDict({"encoder": model})) == list(model.layers)


def test_a_subject_is_measured_and_left_as_it_was(monkeypatch):
    compiled = []

    def compile_(self, **options):
        compiled.append(self)
        forms.counters["stats"]["unique_graphs"] = 1

    monkeypatch.setattr(nn.Module, "compile", compile_)
    one = forms.Measurement("toy", Encoder(toy), 6, 2, FORWARD, EAGER)
    subject = forms.Subject(one, "cpu", whole=False)
    row, output = subject.measure(FORWARD, EAGER)
    assert row["runs"] >= forms.FEWEST_RUNS
    low, high = row["ms quartiles"]
    assert low <= row["ms"] <= high
    assert output.shape == (2, 6, 4)
    assert not compiled
    _, again = subject.measure(FORWARD, COMPILED)
    assert compiled == list(subject.model.layers)
    assert torch.equal(output, again)
    row, output = subject.measure(STEP, EAGER)
    assert output is None
    assert all(parameter.grad is None for parameter in subject.model.parameters())
    with pytest.raises(RuntimeError, match="no CUDA graphs"):
        subject.measure(FORWARD, CAPTURED)
    whole = forms.Subject(one, "cpu", whole=True)
    whole.measure(FORWARD, COMPILED)
    assert compiled[-1] is whole.model
    monkeypatch.setattr(nn.Module, "compile", lambda self, **options: None)
    with pytest.raises(RuntimeError, match="nothing was compiled"):
        forms.Subject(one, "cpu", whole=False).measure(FORWARD, COMPILED)


def test_every_form_is_planned_what_is_compiled_last():
    plan = forms.plan({"a": Encoder(toy), "b": Encoder(toy, parts=(STEP,), forms=(EAGER,))}, [8, 4])
    assert [str(one) for one in plan[:2]] == [
        "a, 8 tokens, forward, eager",
        "a, 8 tokens, forward, captured",
    ]
    assert len(plan) == 2 * (2 * len(FORMS) + 1)
    assert [one.form for one in plan if one.form in (COMPILED, BOTH)] == [COMPILED, BOTH] * 4
    assert {one.form for one in plan[-8:]} == {COMPILED, BOTH}
    long = forms.plan({"a": Encoder(toy)}, [forms.COMPILED_UP_TO, 2 * forms.COMPILED_UP_TO])
    assert [one.form for one in long] == [EAGER] * 4 + [COMPILED] * 2


def test_what_fails_at_one_length_is_not_tried_at_greater_ones():
    answers = {"a": 1.0, ("a", COMPILED): "out of memory"}
    rows, worker, _ = rows_of({"a": Encoder(toy)}, answers, [4, 8, 16], parts=[FORWARD])
    found = {(row["tokens"], row["form"]): row["failed"] for row in rows}
    assert found[4, COMPILED] == found[4, BOTH] == "out of memory"
    assert found[8, COMPILED] == found[16, COMPILED] == "out of memory, as at 4 tokens"
    assert [asked[3] for asked in worker.asked if asked[1] == 16] == [EAGER, CAPTURED]


def test_what_waits_for_the_device_is_captured_in_no_form():
    answers = {"a": 1.0, ("a", CAPTURED): f"{forms.WAITS}, a.py:1: x.item()"}
    rows, worker, _ = rows_of({"a": Encoder(toy)}, answers, [4])
    assert [asked[2:] for asked in worker.asked if asked[3] in (CAPTURED, BOTH)] == [
        (FORWARD, CAPTURED)
    ]
    assert all(row["failed"].startswith(forms.WAITS) for row in rows if "captured" in row["form"])


def test_slow_peers_are_left_out_at_greater_lengths_of_their_group():
    pair = {
        "ours": Encoder(toy, ours=True, group="g"),
        "slow": Encoder(toy, group="g"),
        "other": Encoder(toy, group="h"),
    }
    answers = {"ours": 1.0, "slow": 100.0, ("slow", BOTH): 11.0, "other": 100.0}
    rows, _, _ = rows_of(pair, answers, [4, 8], parts=[FORWARD])
    at_8 = [row for row in rows if row["tokens"] == 8]
    failed = {row["encoder"] for row in at_8 if row["failed"]}
    assert failed == {"slow"}
    assert {row["failed"] for row in at_8 if row["encoder"] == "slow"} == {
        "left out, over 10 × ours at 4 tokens"
    }
    answers["slow", BOTH] = 9.0
    rows, _, _ = rows_of(pair, answers, [4, 8], parts=[FORWARD])
    failed = {row["form"] for row in rows if row["failed"]}
    assert failed == {EAGER, CAPTURED}  # compiled and captured, it is fast enough


def test_a_run_whose_time_is_over_knows_what_is_missing():
    _, _, found = rows_of({"a": Encoder(toy)}, {"a": 1.0}, [4], parts=[FORWARD])
    assert [len(rows) for rows, _ in found] == [4, 4, 4, 4]  # one list, which grows
    assert [len(missing) for _, missing in found] == [3, 2, 1, 0]
    assert found[2][1] == ["a, 4 tokens, forward, compiled, captured"]
    assert not rows_of({"a": Encoder(toy)}, {"a": 1.0}, [4], minutes=-1)[0]


def test_the_table_shows_the_eager_and_the_best_form():
    pair = {"ours": Encoder(toy, ours=True), "theirs": Encoder(toy)}
    answers = {
        "ours": 2.0,
        ("ours", CAPTURED): 1.0,
        "theirs": 6.0,
        ("theirs", COMPILED): 4.0,
        ("theirs", CAPTURED): "RuntimeError: a | b",
    }
    rows, _, _ = rows_of(pair, answers, [4096, 8192])
    lines = [[cell.strip() for cell in line.split("|")] for line in forms.table(rows).splitlines()]
    assert lines[2][1:9] == ["4,096", "ours", "2", "1", "captured", "2", "1", "captured"]
    assert lines[3][1:6] == ["4,096", "theirs", "6", "4", "compiled"]
    assert len(lines) == 6


def test_the_table_says_what_ran_without_a_graph():
    def row(name, form, ms, gib):
        size = {"ours": True, "group": "", "batch": 1, "tokens": 4096, "part": FORWARD}
        return {"encoder": name, "form": form, "ms": ms, "GiB": gib, "failed": None, **size}

    packed = f"{encoders.HDT}, packed"
    rows = encoders.with_graphs(
        [
            row(encoders.HDT, EAGER, 3.0, 0.28),
            row(encoders.HDT, CAPTURED, 2.0, 0.281),  # as much memory as without a graph
            row(packed, EAGER, 3.0, 0.28),
            row(packed, CAPTURED, 1.0, 0.28),  # a graph of the benchmark's own
        ]
    )
    assert [one["graph"] for one in rows] == [True, False, True, True]
    assert forms.table(rows).count("captured, no graph") == 1
    assert "no graph" not in forms.table(rows[2:])


def test_a_saved_run_says_whether_it_finished(tmp_path):
    path = tmp_path / "run.json"
    report.save(path, {"rows": [1]}, missing=["a", "b"])
    saved = json.loads(path.read_text())
    assert (saved["finished"], saved["missing"]) == (False, ["a", "b"])
    report.save(path, {"rows": [1, 2]}, missing=[])
    saved = json.loads(path.read_text())
    assert (saved["finished"], saved["missing"], saved["results"]) == (True, [], {"rows": [1, 2]})
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("script", "names"),
    [
        (encoders, ["short", "long"]),
        (fovea, ["forms"]),
        (speed_up, speed_up.ON_PAGE),
        (vcc, ["forms"]),
    ],
)
def test_pages_have_a_place_for_every_table(script, names):
    text = Path(script.PAGE).read_text(encoding="utf-8")
    assert all(text.count(f"<!-- table: {name} -->\n\n") == 1 for name in names)
    assert any(encoder.ours for encoder in script.ENCODERS.values())


def test_flash_windows_reach_as_far_as_transformers_masks():
    if not torch.cuda.is_available():
        pytest.skip("torch's FlashAttention needs a GPU")
    torch.manual_seed(0)
    expected, actual = None, None
    for build in (encoders.modernbert_sdpa, encoders.modernbert_flash):
        torch.manual_seed(0)
        with torch.device("cuda"):
            model, inputs = build(1, 512)
        ids = torch.arange(512, device="cuda")[None] + 5
        with torch.inference_mode():
            output = model.eval().bfloat16()(ids, **inputs).last_hidden_state.float()
        expected, actual = (output, None) if expected is None else (expected, output)
    assert (actual - expected).norm() < 0.02 * expected.norm()
