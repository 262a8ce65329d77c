"""Cross attention to a compressed encoder."""

import pytest
import torch
from transformers import DynamicCache
from transformers.models.t5.modeling_t5 import T5Attention

from foveate.models.masks import padding_mask
from foveate.models.speed_ups import restore
from foveate.models.vcc import VccT5Config, VccT5ForConditionalGeneration
from foveate.models.vcc.cross_attention import CrossAttentionMasks
from tests.models.test_modeling_vcc import SHORT, T5, first, ids_of
from tests.numerics import relative_error


def made(**fields):
    torch.manual_seed(0)
    sizes = T5 | SHORT | {"compress_cross_attention": True} | fields
    return VccT5ForConditionalGeneration(VccT5Config(**sizes)).double().eval()


@pytest.mark.parametrize("beams", [1, 3])
def test_compressed_cross_attention_of_all_blocks_is_cross_attention(beams):
    ids, vips = ids_of(2, 41), first(41, 3, 2)
    mask = torch.ones_like(ids)
    mask[1, 30:] = 0
    plain = made(num_fine_blocks=99, compress_cross_attention=False)
    model = made(num_fine_blocks=99)
    labels = ids_of(2, 6, seed=1)
    inputs = {"input_ids": ids, "attention_mask": mask, "vip_mask": vips}
    # log multiplicities are of float32.
    assert (
        relative_error(model(**inputs, labels=labels).logits, plain(**inputs, labels=labels).logits)
        < 1e-6
    )
    kept = {"max_new_tokens": 8, "num_beams": beams}
    assert torch.equal(model.generate(**inputs, **kept), plain.generate(**inputs, **kept))


def test_compressed_cross_attention_sees_other_blocks_as_their_mean():
    """As if every token that is not looked at closely were its block's mean."""
    model = made()
    states, queries = torch.randn(1, 22, 16).double(), torch.randn(1, 3, 16).double()
    attention = model.decoder.block[0].layer[1].EncDecAttention
    mask = padding_mask(
        batch_size=1,
        q_offset=0,
        kv_length=22,
        kv_offset=0,
        attention_mask=(torch.arange(22) < 20)[None],
    )
    out = attention(queries, mask=CrossAttentionMasks(mask, None), key_value_states=states)[0]
    heads = [(x(y)).view(-1, 2, 8) for x, y in ((attention.q, queries), (attention.k, states))]
    means = torch.stack([block.mean(1)[0] for block in states[:, :20].split(4, 1)])
    scores = torch.einsum("qhd,khd->hqk", heads[0], attention.k(means).view(-1, 2, 8))
    best = scores.softmax(-1).mean((0, 1)).topk(2).indices.tolist()
    seen = states[0, :20].clone()
    for block in set(range(5)) - set(best):
        seen[4 * block : 4 * block + 4] = means[block]
    plain = T5Attention.forward(attention, queries, key_value_states=seen[None])[0]
    assert relative_error(out, plain) < 1e-6


def test_compressed_cross_attention_caches_means_alone():
    model = made()
    ids, vips = ids_of(1, 50), first(50, 3)
    stepwise = model.generate(
        ids, vip_mask=vips, max_new_tokens=5, return_dict_in_generate=True, use_cache=True
    )
    cache = stepwise.past_key_values.cross_attention_cache
    assert cache.layers[0].keys.shape == (1, 2, 13, 8)
    out = model(ids, vip_mask=vips, labels=ids[:, :4])
    out.loss.backward()
    key = model.decoder.block[0].layer[1].EncDecAttention.k.weight
    assert key.grad.abs().sum() > 0


def test_padded_targets_do_not_choose_what_compressed_cross_attention_sees():
    model = made()
    for weight in model.parameters():
        torch.nn.init.normal_(weight, std=0.3)
    ids, targets = ids_of(1, 80), ids_of(1, 6, seed=1)
    padded, mask = torch.cat([targets, torch.zeros(1, 20).long()], 1), first(26, 6).long()
    with torch.no_grad():
        alone = model(ids, decoder_input_ids=targets).logits
        beside = model(ids, decoder_input_ids=padded, decoder_attention_mask=mask).logits
        voting = model(ids, decoder_input_ids=padded).logits
        shifted = model(
            ids, decoder_input_ids=padded.flip(1), decoder_attention_mask=mask.flip(1)
        ).logits
        back = model(
            ids, decoder_input_ids=targets.flip(1), decoder_attention_mask=mask[:, :6]
        ).logits
    assert relative_error(beside[:, :6], alone) < 1e-12
    assert relative_error(voting[:, :6], alone) > 1e-6
    assert relative_error(shifted[:, 20:], back) < 1e-12


def test_padding_in_the_cache_does_not_shift_who_chooses():
    model = made()
    attention = model.decoder.block[0].layer[1].EncDecAttention
    seen = padding_mask(
        batch_size=1,
        q_offset=2,
        kv_length=5,
        kv_offset=0,
        attention_mask=torch.tensor([[0, 1, 1, 1, 0]]).bool(),
    )
    cache = DynamicCache()
    cache.update(*torch.zeros(2, 1, 2, 5, 8), 0)
    shares = attention._shares(torch.zeros(1, 3, 16), seen, cache)
    assert shares.tolist() == [[0.5, 0.5, 0.0]]


@pytest.mark.parametrize("pads", [1, 4, 21])
@pytest.mark.parametrize("where", ["left", "right", "between"])
def test_compressed_cross_attention_does_not_see_padding(pads, where):
    model = made()
    ids, vips, decoded = ids_of(1, 77), first(77, 3)[:1], ids_of(1, 6, seed=1)
    expected = model(input_ids=ids, vip_mask=vips, decoder_input_ids=decoded).logits
    at = {"left": 0, "right": 77, "between": 30}[where]
    real = torch.ones(1, 77 + pads, dtype=torch.bool)
    real[:, at : at + pads] = False

    def padded(x):
        return torch.zeros_like(real, dtype=x.dtype).masked_scatter(real, x)

    inputs = {"input_ids": padded(ids), "vip_mask": padded(vips), "attention_mask": real.long()}
    found = model(**inputs, decoder_input_ids=decoded).logits
    assert relative_error(found, expected) < 1e-6


def test_a_static_cache_holds_means_too():
    model = made()
    inputs = {"input_ids": ids_of(2, 50), "vip_mask": first(50, 3, 2)}
    inputs["attention_mask"] = torch.stack([first(50, 50)[0], first(50, 30)[0]]).long()
    inputs["decoder_input_ids"] = ids_of(2, 4, seed=1)
    inputs["decoder_attention_mask"] = torch.tensor([[0, 0, 1, 1], [1, 1, 1, 1]])
    kept = {"max_new_tokens": 5, "output_logits": True, "return_dict_in_generate": True}
    dynamic = model.generate(**inputs, **kept)
    static = model.generate(**inputs, **kept, cache_implementation="static")
    assert torch.equal(dynamic.sequences, static.sequences)
    for ours, theirs in zip(dynamic.logits, static.logits, strict=True):
        assert relative_error(ours, theirs) < 1e-5  # logits are kept in float32


def test_compressed_cross_attention_is_not_turned_off_silently():
    model, inputs = made(), {"input_ids": ids_of(1, 20), "labels": ids_of(1, 4)}
    expected = model(**inputs).logits
    model.set_attn_implementation("eager")
    assert torch.equal(model(**inputs).logits, expected)
    restore(model)
    with pytest.raises(RuntimeError, match="an implementation of its own"):
        model(**inputs)
