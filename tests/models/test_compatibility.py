"""What the libraries around transformers do to a model: hooks, adapters, quantization, offloading.

A model whose parts are replaced or hooked must call them as modules, and not read their weights.
"""

import copy

import pytest
import torch
from accelerate import cpu_offload
from torch import nn
from transformers import (
    LongT5Config,
    LongT5ForConditionalGeneration,
    T5Config,
    T5ForConditionalGeneration,
    Trainer,
    TrainingArguments,
)
from transformers.integrations import neftune_post_forward_hook

from foveate.models.fovea import FoveaConfig, FoveaForConditionalGeneration
from foveate.models.hdt import HDTConfig, HDTForConditionalGeneration, HDTForMaskedLM
from foveate.models.speed_ups import speed_up
from foveate.models.tree_bert import TreeBertConfig, TreeBertModel
from foveate.models.vcc import (
    VccRobertaConfig,
    VccRobertaForMaskedLM,
    VccT5Config,
    VccT5ForConditionalGeneration,
)
from tests.numerics import relative_error
from tests.t5 import SIZES

BERT = {
    "vocab_size": 60,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 24,
}
COMPRESSION = {"block_size": 2, "num_fine_blocks": 2}
MODELS = {
    "hdt": lambda: HDTForMaskedLM(HDTConfig(**SIZES)),
    "rotary_hdt": lambda: HDTForMaskedLM(HDTConfig(**SIZES, position_embedding_type="rotary")),
    "hdt_ed": lambda: HDTForConditionalGeneration(HDTConfig(**SIZES, num_decoder_layers=2)),
    "tree_bert": lambda: TreeBertModel(TreeBertConfig(**BERT)),
    "fovea": lambda: FoveaForConditionalGeneration(FoveaConfig(**SIZES, block_size=4)),
    "vcc_roberta": lambda: VccRobertaForMaskedLM(VccRobertaConfig(**BERT, **COMPRESSION)),
    "vcc_t5": lambda: VccT5ForConditionalGeneration(VccT5Config(**SIZES, **COMPRESSION)),
    "fast_t5": lambda: speed_up(T5ForConditionalGeneration(T5Config(**SIZES))),
    "fast_longt5": lambda: speed_up(
        LongT5ForConditionalGeneration(LongT5Config(**SIZES, local_radius=3))
    ),
    "fast_global_longt5": lambda: speed_up(
        LongT5ForConditionalGeneration(
            LongT5Config(**SIZES, local_radius=3, encoder_attention_type="transient-global")
        )
    ),
}
WRITERS = ("hdt_ed", "fovea", "vcc_t5", "fast_t5", "fast_longt5", "fast_global_longt5")

IDS = torch.tensor([[1, 2, 3, 10, 11, 3, 12, 2, 3, 13], [1, 2, 3, 14, 15, 3, 16, 0, 0, 0]])
MASK = (IDS > 0).long()
PARENTS = torch.tensor([[-1, 0, 1, 2, 2, 1, 5, 0, 7, 8], [-1, 0, 1, 2, 2, 1, 5, -1, -1, -1]])
PASSAGES = {
    "position_ids": torch.tensor([[0, 1, 2, 3, 4, 0, 1, 2, 3, 4], [0, 1, 2, 0, 1, 2, 3, 0, 0, 0]]),
    "anchor_ids": torch.tensor(
        [[-1, 2, 2, 3, 3, -1, 5, 5, 5, 5], [-1, 1, 1, -1, 2, 2, 2, -1, -1, -1]]
    ),
    "anchor_parents": torch.tensor([[-1, 0, 1, 1, 0, 4], [-1, 0, 0, -1, -1, -1]]),
    "anchor_kinds": torch.tensor([[3, 2, 1, 1, 2, 1], [3, 1, 1, -1, -1, -1]]),
}
LABELS = torch.tensor([[20, 21, 22, 1], [30, 31, 1, -100]])


def build(name):
    """Make a small model and a padded batch for it."""
    torch.manual_seed(0)
    batch = {"input_ids": IDS, "attention_mask": MASK}
    if name in ("hdt", "rotary_hdt", "hdt_ed"):
        batch["parent_ids"] = PARENTS
    if name == "tree_bert":
        batch |= PASSAGES
    else:
        batch["labels"] = LABELS if name in WRITERS else IDS.masked_fill(MASK == 0, -100)
    return MODELS[name]().eval(), batch


def first(model, batch):
    """Return the first tensor of a model's output that is not a loss."""
    with torch.no_grad():
        return first_with_gradients(model, batch)


def first_with_gradients(model, batch):
    output = model(**batch)
    return output.logits if "logits" in output else output.embeddings


@pytest.mark.parametrize("name", ["hdt", "hdt_ed", "tree_bert", "fovea", "vcc_roberta", "vcc_t5"])
def test_neftune_adds_its_noise_to_a_padded_batch(name):
    model, batch = build(name)
    shapes = []
    embeddings = model.get_input_embeddings()
    expected = first_with_gradients(model, batch)
    embeddings.register_forward_hook(lambda *call: shapes.append(tuple(call[2].shape)))
    assert relative_error(first_with_gradients(model, batch), expected) < 1e-6
    assert shapes[0] == (2, 10, 16)
    embeddings.neftune_noise_alpha = 5.0
    embeddings.register_forward_hook(neftune_post_forward_hook)
    embeddings.train()
    assert relative_error(first_with_gradients(model, batch), expected) > 1e-3


@pytest.mark.parametrize("name", ["hdt", "hdt_ed", "vcc_t5"])
def test_trainer_adds_neftune(name, tmp_path):
    model, batch = build(name)
    arguments = TrainingArguments(
        str(tmp_path),
        max_steps=1,
        neftune_noise_alpha=5.0,
        report_to=[],
        disable_tqdm=True,
        use_cpu=True,
        save_strategy="no",
        dataloader_pin_memory=False,
    )
    examples = [{column: rows[i] for column, rows in batch.items()} for i in range(2)]
    assert Trainer(model, arguments, train_dataset=examples).train().training_loss > 0
    assert not hasattr(model.get_input_embeddings(), "neftune_noise_alpha")


@pytest.mark.parametrize("name", MODELS)
def test_inputs_can_require_gradients_where_the_words_are_frozen(name):
    model, batch = build(name)
    model.requires_grad_(False).train()
    model.enable_input_require_grads()
    output = model(**batch)
    assert (output.loss if "loss" in output else output.embeddings).requires_grad


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:torch.quantize_per")
def test_linear_layers_can_be_quantized(name):
    model, batch = build(name)
    quantized = torch.ao.quantization.quantize_dynamic(model, {nn.Linear}, dtype=torch.qint8)
    assert relative_error(first(quantized, batch), first(model, batch)) < 0.1
    if name in WRITERS:
        del batch["labels"]
        assert quantized.generate(**batch, min_new_tokens=4, max_new_tokens=4).shape == (2, 5)


# Some versions of transformers look for the device of weights that are elsewhere until used.
@pytest.mark.filterwarnings("ignore:You are calling .generate:UserWarning")
@pytest.mark.parametrize("name", MODELS)
def test_weights_can_be_offloaded(name):
    model, batch = build(name)
    offloaded = cpu_offload(copy.deepcopy(model), execution_device="cpu")
    assert relative_error(first(offloaded, batch), first(model, batch)) < 1e-6
    if name in WRITERS:
        del batch["labels"]
        texts = [
            each.generate(**batch, min_new_tokens=4, max_new_tokens=4)
            for each in (model, offloaded)
        ]
        assert torch.equal(*texts)
