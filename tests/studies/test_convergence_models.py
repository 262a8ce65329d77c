"""All models read the same pieces, and predict the same masked tokens of them."""

import numpy as np
import pytest
import torch

from convergence import passage_seeds_table
from convergence_models import MODELS, Data, build
from foveate.models.hdt import HDTConfig

LENGTH = 48


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """Two documents of three sections with four sentences of nine tokens."""
    section = [2, *[1, *[0] * 9] * 4]
    types = np.array([3, *section * 3] * 2, dtype=np.int8)
    ids = np.random.default_rng(0).integers(10, 60, len(types)).astype(np.uint16)
    ids[types == 3], ids[types == 2], ids[types == 1] = 5, 6, 7
    path = tmp_path_factory.mktemp("data") / "data.npz"
    np.savez(path, ids=ids, types=types, sizes=[len(types) // 2] * 2, special=[5, 6, 8, 60])
    return path


def batch_of(name, file, pieces):
    data = Data(file, name, LENGTH, held_out=9, device="cpu")
    return data.batch(data.train[:pieces], seed=0)


@pytest.mark.parametrize("name", MODELS)
def test_every_model_predicts_the_same_tokens_of_a_piece(name, file):
    torch.manual_seed(0)
    batch = batch_of(name, file, 2)
    assert batch.truth.tolist() == batch_of("dense", file, 2).truth.tolist()
    sizes = {"vocab_size": 60, "d_model": 32, "d_kv": 16, "d_ff": 48, "num_layers": 3}
    model = build(name, HDTConfig(**sizes, num_heads=2, dropout_rate=0.0), LENGTH).eval()
    if name.startswith("HAT"):
        model.hat._compiled_call_impl = None  # compiling takes longer than all else
    hidden_states = model(batch.ids, batch.tree)
    logits = model.predictions(hidden_states[batch.masked_index])
    assert logits.shape == (len(batch.truth), 60)
    logits.sum().backward()
    left_out = [n for n, p in model.named_parameters() if p.requires_grad and p.grad is None]
    assert left_out == []
    if batch.tree is None:  # pieces do not depend on one another
        half = len(batch.ids) // 2
        assert torch.allclose(model(batch.ids[:half], None), hidden_states[:half], atol=1e-5)


def test_further_seeds_are_compared_where_they_arrived():
    def run(model, seed, loss, last=100, rate=1e-3):
        curve = [{"step": 50, "loss": 5.0}, {"step": last, "loss": loss}]
        return {"model": model, "rate": rate, "seed": seed, "curve": curve}

    runs = [
        run("sentences", 0, 9.0, rate=2e-3),
        run("sentences", 0, 3.0),
        run("passages", 0, 2.5),
        run("dense", 0, 2.0),
        run("sentences", 1, 3.2),
        run("passages", 1, 2.8),
        run("dense", 1, 4.0, last=75),
    ]
    lines = [line.replace(" ", "") for line in passage_seeds_table(runs, 100).splitlines()]
    assert lines[2:] == [
        "|sentences|3.000|3.200|+0.000|+0.000|",
        "|passages|2.500|2.800|-0.500|-0.400|",
    ]
