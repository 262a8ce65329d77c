import copy

import pytest
import torch
from transformers import BigBirdConfig, BigBirdModel, LongT5Config, LongT5ForConditionalGeneration
from transformers.models.longt5.modeling_longt5 import LongT5EncoderModel

from foveate.models.speed_ups import restore, speed_up
from tests.models.speed_up import MASKS, check, mask
from tests.numerics import relative_error
from tests.profiles import NIGHTLY

pytestmark = pytest.mark.filterwarnings("ignore:.*gradient_checkpointing_enable:FutureWarning")

KINDS = ["local", "transient-global"]


def longt5(kind, model_class=LongT5EncoderModel, **options):
    torch.manual_seed(0)
    config = LongT5Config(
        vocab_size=50,
        d_model=16,
        d_kv=8,
        num_heads=2,
        d_ff=20,
        num_layers=2,
        encoder_attention_type=kind,
        decoder_start_token_id=0,
        **{
            "local_radius": 5,
            "global_block_size": 4,
            "dropout_rate": 0,
            "relative_attention_num_buckets": 8,
            "relative_attention_max_distance": 12,
        }
        | options,
    )
    return model_class(config).double()


def encode(length, padding, batch=3):
    ids = torch.randint(5, 50, (batch, length), generator=torch.Generator().manual_seed(1))
    real = mask(padding, batch, length)
    return lambda model: model(input_ids=ids, attention_mask=real).last_hidden_state, real


@pytest.mark.parametrize("length", [1, 3, 4, 17, 64])
@pytest.mark.parametrize("padding", MASKS)
@pytest.mark.parametrize("kind", KINDS)
def test_longt5_is_the_same(kind, padding, length):
    check(longt5(kind), *encode(length, padding))


@pytest.mark.parametrize("length", [511, 512, 513])
@pytest.mark.parametrize("kind", KINDS)
def test_longt5_is_the_same_with_its_published_windows(kind, length):
    published = {
        "local_radius": 127,
        "global_block_size": 16,
        "relative_attention_num_buckets": 32,
        "relative_attention_max_distance": 128,
    }
    check(longt5(kind, **published), *encode(length, "left", batch=2))


@pytest.mark.parametrize("kind", KINDS)
def test_longt5_is_the_same_at_4096(kind):
    check(longt5(kind, local_radius=63, global_block_size=16), *encode(4096, "right", batch=1))


@pytest.mark.parametrize("kind", KINDS)
def test_gated_feed_forward(kind):
    check(longt5(kind, feed_forward_proj="gated-gelu"), *encode(17, "right"))


@pytest.mark.parametrize("kind", KINDS)
def test_half_precision_is_within_its_rounding(kind):
    model = longt5(kind, feed_forward_proj="gated-gelu").eval()
    run, real = encode(33, "right")
    expected = run(model)[real.bool()]
    for dtype, tolerance in ((torch.bfloat16, 3e-2), (torch.float32, 1e-5)):
        faster = speed_up(copy.deepcopy(model).to(dtype))
        assert relative_error(run(faster)[real.bool()], expected) < tolerance


@pytest.mark.parametrize("kind", KINDS)
def test_without_a_mask(kind):
    ids = torch.randint(5, 50, (2, 30))
    check(longt5(kind), lambda model: model(input_ids=ids).last_hidden_state)


@pytest.mark.parametrize("kind", KINDS)
def test_it_generates_the_same(kind):
    model = longt5(kind, LongT5ForConditionalGeneration)
    ids, real = torch.randint(5, 50, (3, 37)), mask("left", 3, 37)
    check(
        model, lambda model: model(ids, attention_mask=real, labels=ids[:, :7].contiguous()).logits
    )
    call = {"attention_mask": real, "num_beams": 2, "max_new_tokens": 12, "min_new_tokens": 5}
    expected = model.generate(ids, **call)
    assert torch.equal(speed_up(model).generate(ids, **call), expected)


@pytest.mark.parametrize("kind", KINDS)
def test_attention_weights_are_given_with_a_warning(kind):
    model = longt5(kind)
    run = {"input_ids": torch.randint(5, 50, (1, 16)), "output_attentions": True}
    expected = model(**run)
    speed_up(model)
    with pytest.warns(UserWarning, match="attention weights are requested"):
        actual = model(**run)
    assert all(map(torch.equal, actual.attentions, expected.attentions))
    assert torch.equal(actual.last_hidden_state, expected.last_hidden_state)
    before = [type(module) for module in longt5(kind).modules()]
    assert [type(module) for module in restore(model).modules()] == before


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_training_with_gradient_checkpointing(kind, reentrant):
    model = speed_up(longt5(kind)).train()
    run, _ = encode(20, "right")

    def gradient():
        model.zero_grad()
        run(model).square().sum().backward()
        return torch.cat([x.grad.flatten() for x in model.encoder.block.parameters()])

    expected = gradient()
    model.gradient_checkpointing_enable({"use_reentrant": reentrant})
    if reentrant:
        model.enable_input_require_grads()
    assert relative_error(gradient(), expected) < 1e-12


@pytest.mark.parametrize("kind", KINDS)
def test_a_mask_that_changes_in_place_is_read_again(kind):
    model = speed_up(longt5(kind)).eval()
    ids, real = torch.randint(5, 50, (1, 20)), torch.ones(1, 20, dtype=torch.long)
    model(input_ids=ids, attention_mask=real)
    real[:, 12:] = 0
    changed = model(input_ids=ids, attention_mask=real).last_hidden_state[:, :12]
    short = model(input_ids=ids[:, :12]).last_hidden_state
    assert relative_error(changed, short) < 1e-12


@pytest.mark.parametrize("kind", KINDS if NIGHTLY else KINDS[:1])
@pytest.mark.filterwarnings("ignore:The .grad attribute:UserWarning")  # by torch.compile itself
def test_it_is_the_same_compiled(kind):
    model = speed_up(longt5(kind)).eval()
    encoded, real = encode(17, "right")
    compiled = torch.compile(model, backend="aot_eager")
    assert relative_error(encoded(compiled)[real.bool()], encoded(model)[real.bool()]) < 1e-10


def test_bigbird_is_refused():
    sizes = {"hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 20}
    model = BigBirdModel(BigBirdConfig(vocab_size=70, num_hidden_layers=1, **sizes))
    with pytest.raises(ValueError, match="there is nothing to speed up in a BigBirdModel"):
        speed_up(model)
