import copy

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import (
    BertConfig,
    BertModel,
    RobertaConfig,
    RobertaForMaskedLM,
    RobertaModel,
    T5Config,
    T5ForConditionalGeneration,
)

from foveate.models.positions import repeat_positions
from foveate.models.vcc import VccRobertaConfig, VccRobertaForMaskedLM
from tests.numerics import relative_error

SIZES = {
    "vocab_size": 40,
    "hidden_size": 16,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "intermediate_size": 24,
}


def roberta(kind=RobertaModel, config=RobertaConfig, rows=514, **fields):
    torch.manual_seed(0)
    fields = {**SIZES, "max_position_embeddings": rows, "type_vocab_size": 1, **fields}
    return kind(config(**fields)).eval()


def ids(length, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(4, 40, (1, length), generator=generator)


@torch.no_grad()
def test_the_first_positions_of_roberta_agree_exactly():
    short = roberta(RobertaForMaskedLM)
    long = repeat_positions(copy.deepcopy(short), 4098)
    assert long.config.max_position_embeddings == 4098
    for length in (1, 100, 512):
        tokens = ids(length)
        assert torch.equal(long(tokens).logits, short(tokens).logits)
    padded = torch.nn.functional.pad(ids(100), (0, 12), value=1)
    mask = (padded != 1).long()
    assert torch.equal(
        long(padded, attention_mask=mask).logits, short(padded, attention_mask=mask).logits
    )
    embeddings = long.roberta.embeddings
    table, old = embeddings.position_embeddings, short.roberta.embeddings.position_embeddings
    assert torch.equal(table.weight[:2], old.weight[:2])
    blocks = table.weight[2:].unflatten(0, (8, 512))
    assert torch.equal(blocks, old.weight[2:].expand_as(blocks))
    assert table.padding_idx == 1
    assert long(ids(4096)).logits.shape == (1, 4096, 40)


@given(rows=st.integers(6, 40), more=st.integers(0, 90), after_padding=st.booleans())
def test_a_table_of_any_size_is_repeated(rows, more, after_padding):
    kind = (RobertaModel, RobertaConfig) if after_padding else (BertModel, BertConfig)
    model = roberta(*kind, rows)
    old = model.embeddings.position_embeddings.weight.detach().clone()
    first = 2 if after_padding else 0
    repeat_positions(model, rows + more)
    table = model.embeddings.position_embeddings.weight
    assert table.requires_grad
    assert len(table) == rows + more
    for i in range(len(table)):
        source = i if i < first else first + (i - first) % (rows - first)
        assert torch.equal(table[i], old[source])


@torch.no_grad()
def test_vcc_reads_with_the_long_table_as_with_the_short_one_repeated():
    fields = {"segment_size": 32, "num_segment_layers": 1, "block_size": 4, "num_fine_blocks": 3}
    short = roberta(VccRobertaForMaskedLM, VccRobertaConfig, 66, **fields)
    long = repeat_positions(copy.deepcopy(short), 258)
    for length in (50, 64, 65, 256):
        tokens = ids(length)
        assert relative_error(long(tokens).logits, short(tokens).logits) < 1e-6


def test_each_position_learns_for_itself():
    model = repeat_positions(roberta(rows=10), 26)
    model(ids(20)).last_hidden_state.square().sum().backward()
    grad = model.embeddings.position_embeddings.weight.grad
    assert not torch.allclose(grad[2:10], grad[10:18])
    assert not grad[22:].any()  # positions 20 to 23 were not read


def test_a_long_table_is_saved_and_loaded(tmp_path):
    model = repeat_positions(roberta(RobertaForMaskedLM, rows=34), 130)
    model.save_pretrained(tmp_path)
    loaded = VccRobertaForMaskedLM.from_pretrained(tmp_path)
    assert loaded.config.max_position_embeddings == 130
    assert torch.equal(
        loaded.roberta.embeddings.position_embeddings.weight,
        model.roberta.embeddings.position_embeddings.weight,
    )


def test_what_cannot_be_repeated_is_refused():
    with pytest.raises(ValueError, match=r"must be at least 34, .* table, got 33"):
        repeat_positions(roberta(rows=34), 33)
    sizes = {"d_model": 8, "d_kv": 4, "d_ff": 8, "num_layers": 1, "num_heads": 2}
    t5 = T5ForConditionalGeneration(T5Config(vocab_size=9, **sizes))
    with pytest.raises(ValueError, match="T5ForConditionalGeneration has no table of positions"):
        repeat_positions(t5, 4096)
