"""The long training of dense attention on ListOps."""

import argparse

import pytest
import torch
from torch import nn

from listops import percent, read_data, start_training, take_step, write_data
from listops_dense import WIDTHS, Training, finish, train
from tests.numerics import relative_error


@pytest.fixture
def options(tmp_path):
    sizes = {"layers": 1, "batch": 10, "examples": (60, 20, 20), "depth": 3, "operands": 3}
    options = argparse.Namespace(
        **sizes, heads=[1, 4], seed=0, epochs=2, every=1, state=tmp_path, results=tmp_path / "r"
    )
    write_data(options)
    return options


def without_dropout(model):
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0


def test_a_step_is_that_of_the_short_training(options):
    options.heads = [4]
    training = Training(options)
    data, (part, *_) = read_data(options)
    options.heads = 4
    other, optimizer = start_training("dense", 0, options, "cpu")
    without_dropout(training.models)
    without_dropout(other)
    for step, (chosen, width) in enumerate(training.data.by_width(part, options.batch)):
        take_step(other, optimizer, data, chosen, step)
        training.step(chosen, width)
    for ours, theirs in zip(training.models.parameters(), other.parameters(), strict=True):
        assert relative_error(ours.detach(), theirs.detach()) < 1e-4


def test_parts_of_a_batch_give_its_gradient(options, monkeypatch):
    training = Training(options)
    without_dropout(training.models)

    def gradients():
        training.compute_gradients(WIDTHS[-1])
        return torch.cat([p.grad.flatten() for p in training.models.parameters()])

    training.chosen.copy_(torch.arange(options.batch))
    whole = gradients()
    monkeypatch.setattr("listops_dense.TOKENS", 3 * WIDTHS[-1])
    assert relative_error(gradients(), whole) < 1e-5


def test_batches_hold_everything_once_and_fit_their_width(options):
    training = Training(options)
    batches = training.data.by_width(training.parts[0], 7)
    assert (
        torch.cat([chosen for chosen, _ in batches])
        .sort()
        .values.equal(training.parts[0].sort().values)
    )
    for chosen, width in batches:
        assert 1 + training.lengths[chosen].max() <= width


def test_training_goes_on_where_it_was_left(options):
    for epochs in (1, 2):
        options.epochs = epochs
        training = Training(options)
        train(training, options, float("inf"))
    assert [point["epoch"] for point in training.log["curve"]] == [1, 2]
    assert training.log["step"] == 12
    right = training.is_correct(training.parts[2], options.batch)
    finish(Training(options), training.parts[2], options)
    again = Training(options).is_correct(training.parts[2], options.batch)
    assert {heads: percent(x) for heads, x in right.items()} == {
        heads: percent(x) for heads, x in again.items()
    }
