"""`torch.export` and ONNX: one shape, without padding; of HDT, one tree."""

import pytest
import torch
from torch import nn

from foveate.models.fovea import FoveaConfig, FoveaEncoderModel
from foveate.models.hdt import HDTConfig, HDTModel
from foveate.models.vcc import VccRobertaConfig, VccRobertaModel
from foveate.ops._packed.buckets import bias_by_distance
from foveate.ops.tree_attention import Tree
from tests.numerics import relative_error
from tests.t5 import SIZES

BERT = {
    "vocab_size": 60,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 24,
}
COMPRESSION = {"segment_size": 16, "block_size": 4, "num_fine_blocks": 2}
COMPRESSION |= {"num_vip_slots": 4, "num_segment_layers": 1}
PARENTS = [-1, 0, 0, 0, 1, 1, 1, 2, 2, 3, 3, 3, 3]


class OfOneTree(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = HDTModel(HDTConfig(**SIZES))
        self.tree = Tree.from_parents(PARENTS).in_level_order

    def forward(self, input_ids):
        return self.encoder(input_ids, tree=self.tree)


ENCODERS = {
    "hdt": OfOneTree,
    "fovea": lambda: FoveaEncoderModel(FoveaConfig(**SIZES, block_size=4)),
    "vcc_roberta": lambda: VccRobertaModel(VccRobertaConfig(**BERT, **COMPRESSION)),
}


def made(name):
    """A small model, and two batches of one shape."""
    torch.manual_seed(0)
    length = len(PARENTS) if "hdt" in name else 30
    model = ENCODERS[name]().eval().requires_grad_(False)
    return model, *torch.randint(5, 40, (2, 1, length))


@pytest.mark.parametrize("name", ENCODERS)
def test_exported(name, tmp_path):
    model, ids, others = made(name)
    file = tmp_path / "encoder.pt2"
    torch.export.save(torch.export.export(model, (ids,)), file)
    loaded = torch.export.load(file).module()
    for one in (ids, others):
        expected = model(one)[0]
        assert relative_error(loaded(one)[0], expected) < 1e-6
    assert relative_error(model(ids)[0], expected) > 1e-2


def test_vip_tokens_may_change_afterwards():
    model, ids, _ = made("vcc_roberta")
    column = torch.arange(30)[None]
    masks = [(column < 3).long(), (column % 20 == 9).long()]
    program = torch.export.export(model, (ids,), {"vip_mask": masks[0]}).module()
    for mask in masks:
        assert relative_error(program(ids, vip_mask=mask)[0], model(ids, vip_mask=mask)[0]) < 1e-6


@pytest.mark.parametrize("name", ENCODERS)
def test_onnx(name):
    pytest.importorskip("onnxscript")
    pytest.importorskip("onnxruntime")
    model, ids, others = made(name)
    program = torch.onnx.export(torch.export.export(model, (ids,)), dynamo=True)
    assert relative_error(program(others)[0], model(others)[0]) < 1e-5


class Bias(nn.Module):
    def forward(self, table):
        return bias_by_distance(table, 37, bidirectional=True)


def test_tables_built_while_exporting_are_good_afterwards():
    table = torch.randn(10, 2)  # of a size that no other test uses, so that nothing is cached yet
    exported = torch.export.export(Bias(), (table,)).module()
    biases = Bias()(table)
    assert torch.equal(biases[:, 0], table[4])
    assert torch.equal(biases[:, -1], table[9])
    assert torch.equal(exported(table), biases)
