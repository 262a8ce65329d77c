import os
from multiprocessing import get_context

import forms
import pytest
import torch
from forms import EAGER, FORWARD, Encoder, Measurement, Worker
from torch import nn
from transformers.modeling_outputs import BaseModelOutput

from tests.profiles import NIGHTLY


class Toy(nn.Module):
    def __init__(self):
        super().__init__()
        self.config = type("Config", (), {"vocab_size": 20})
        self.embeddings = nn.Embedding(20, 4)

    def forward(self, input_ids):
        return BaseModelOutput(self.embeddings(input_ids))


def toy(batch, length):
    return Toy(), {}


def ends_its_process(batch, length):
    os._exit(3)


def takes_nothing(batch, length):
    return Toy(), {"unknown": torch.ones(1)}


@pytest.mark.skipif(not NIGHTLY, reason="three processes import torch")
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_what_goes_wrong_costs_one_measurement(monkeypatch):
    worker = Worker("cpu")
    builders = {"ends": ends_its_process, "toy": toy, "fails": takes_nothing, "same": toy}
    found = {}
    try:
        for name, build in builders.items():
            encoder = Encoder(build, weights="toy")
            found[name] = worker.measure(Measurement(name, encoder, 6, 1, FORWARD, EAGER))
            # The next process need not import torch.
            monkeypatch.setattr(forms, "get_context", lambda method: get_context("fork"))
    finally:
        worker.stop()
    assert found["ends"]["failed"] == "the process ended, 3"
    assert found["toy"]["failed"] is None
    assert found["toy"]["ms"] > 0
    assert found["fails"]["failed"].startswith("TypeError: ")
    assert "unknown" in found["fails"]["failed"]
    assert found["same"]["difference"] == 0
