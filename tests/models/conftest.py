"""Small random checkpoints, made on the spot."""

import pytest
import torch
from transformers import AutoTokenizer

from foveate import HDTConfig, HDTModel
from foveate.models.default import default_model_path


@pytest.fixture(scope="session")
def tokenizer():
    return AutoTokenizer.from_pretrained(default_model_path())


@pytest.fixture
def hdt_config():
    return HDTConfig(vocab_size=60, d_model=16, d_kv=8, d_ff=24, num_layers=2, num_heads=2)


@pytest.fixture
def hdt(hdt_config):
    torch.manual_seed(0)
    return HDTModel(hdt_config).double().eval()
