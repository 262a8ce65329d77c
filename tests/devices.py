"""Where kernels are tested: on a GPU, or else in Triton's interpreter (see `interpreter.py`)."""

import os

import pytest
import torch

from foveate.ops._triton import card

ON_GPU = torch.cuda.is_available()
DEVICE = "cuda" if ON_GPU else "cpu"

gpu = pytest.mark.skipif(not ON_GPU, reason="needs a GPU")
gpu_or_interpreter = pytest.mark.skipif(
    not (ON_GPU or os.environ.get("TRITON_INTERPRET") == "1"),
    reason="needs a GPU or TRITON_INTERPRET=1",
)


@pytest.fixture
def small_card(monkeypatch):
    """Let kernels in the interpreter have the sizes of a card with little shared memory."""
    if ON_GPU:
        pytest.skip("has the shared memory of the GPU")
    monkeypatch.setattr(card, "H200", card.Card((8, 6), 24_576))
    card.card_of.cache_clear()
    yield
    card.card_of.cache_clear()
