import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import (
    LEDConfig,
    LEDForConditionalGeneration,
    LEDModel,
    LongformerConfig,
    LongformerForMaskedLM,
    LongformerForQuestionAnswering,
    LongformerForSequenceClassification,
    LongformerForTokenClassification,
    LongformerModel,
)

from foveate.models.speed_ups import restore, speed_up
from foveate.models.speed_ups.layouts import WindowLayout
from foveate.models.speed_ups.longformer import (
    WindowedLEDAttention,
    WindowedLongformerAttention,
    WindowedLongformerEncoder,
)
from tests.models.speed_up import MASKS, check, mask
from tests.numerics import relative_error

pytestmark = pytest.mark.filterwarnings("ignore:.*gradient_checkpointing_enable:FutureWarning")


def longformer(window, **options):
    torch.manual_seed(0)
    config = LongformerConfig(
        vocab_size=50,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=20,
        attention_window=window,
        max_position_embeddings=4200,
        **{"attention_probs_dropout_prob": 0, "hidden_dropout_prob": 0} | options,
    )
    return LongformerModel(config).double()


def led(model_class=LEDModel):
    torch.manual_seed(0)
    config = LEDConfig(
        vocab_size=50,
        d_model=16,
        encoder_layers=2,
        decoder_layers=1,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=20,
        decoder_ffn_dim=20,
        attention_window=[8, 4],
        max_encoder_position_embeddings=600,
        dropout=0,
    )
    return model_class(config).double()


def global_mask(tokens, batch, length):
    """Global tokens of a batch: at no place, at the first, at many, at other places in each."""
    generator = torch.Generator().manual_seed(length)
    chosen = torch.zeros(batch, length, dtype=torch.long)
    if tokens == "first":
        chosen[:, 0] = 1
    elif tokens == "many":
        chosen = (torch.rand(batch, length, generator=generator) < 0.3).long()
    elif tokens == "ragged":
        chosen[1] = (torch.rand(length, generator=generator) < 0.2).long()
    return chosen


TOKENS = ["none", "first", "many", "ragged"]
HEADS = {
    LongformerForMaskedLM: {"labels": torch.full((3, 21), 7)},
    LongformerForTokenClassification: {"labels": torch.ones(3, 21, dtype=torch.long)},
    LongformerForSequenceClassification: {"labels": torch.ones(3, dtype=torch.long)},
    LongformerForQuestionAnswering: {
        "start_positions": torch.full((3,), 5),
        "end_positions": torch.full((3,), 9),
    },
}


def encode(length, padding, tokens, batch=3):
    ids = torch.randint(5, 50, (batch, length), generator=torch.Generator().manual_seed(1))
    real, chosen = mask(padding, batch, length), global_mask(tokens, batch, length)

    def run(model):
        return model(
            input_ids=ids, attention_mask=real, global_attention_mask=chosen
        ).last_hidden_state

    return run, real


@pytest.mark.parametrize("tokens", TOKENS)
@pytest.mark.parametrize("padding", MASKS)
@pytest.mark.parametrize("length", [1, 17, 64])
def test_longformer_is_the_same(length, padding, tokens):
    check(longformer([8, 4]), *encode(length, padding, tokens))


@pytest.mark.parametrize("length", [15, 16])
def test_longformer_with_chunks_is_the_same(length):
    check(longformer([8, 4], chunk_size_feed_forward=8), *encode(length, "right", "first", batch=2))


@pytest.mark.parametrize("padding", ["right", "left", "empty"])
@pytest.mark.parametrize("head", HEADS)
def test_heads_that_read_padding_are_the_same(head, padding):
    # Without a mask of their own, these heads' outputs and losses count rows of padding in.
    encoder = longformer([8, 4])
    model = head(encoder.config).double().eval()
    inputs = {
        "input_ids": torch.randint(5, 50, (3, 21)),
        "attention_mask": mask(padding, 3, 21),
        "global_attention_mask": global_mask("first", 3, 21),
        **HEADS[head],
    }

    def outputs(model):
        found = model(**inputs)
        return torch.cat([x.flatten() for x in found.values() if x.is_floating_point()])

    check(model, outputs)


@pytest.mark.parametrize("length", [511, 512, 513])
@pytest.mark.parametrize("window", [16, 512])
def test_longformer_is_the_same_at_length(length, window):
    check(longformer([window, 16]), *encode(length, "right", "first", batch=2))


def test_longformer_is_the_same_over_many_windows():
    check(longformer([256, 64]), *encode(2048, "none", "many", batch=1))


@pytest.mark.parametrize("tokens", TOKENS)
@pytest.mark.parametrize("padding", MASKS)
def test_led_encodes_the_same(padding, tokens):
    check(led().encoder, *encode(33, padding, tokens))


def test_led_is_the_same_and_generates_the_same():
    model = led(LEDForConditionalGeneration)
    ids = torch.randint(5, 50, (3, 37))
    call = {
        "attention_mask": mask("right", 3, 37),
        "global_attention_mask": global_mask("first", 3, 37),
    }
    check(model, lambda model: model(input_ids=ids, labels=ids[:, :7].contiguous(), **call).logits)
    expected = model.generate(ids, num_beams=2, max_new_tokens=12, min_new_tokens=5, **call)
    speed_up(model)
    assert torch.equal(
        model.generate(ids, num_beams=2, max_new_tokens=12, min_new_tokens=5, **call), expected
    )


def test_attention_weights_are_given_with_a_warning():
    model = longformer([8, 4])
    run = {"input_ids": torch.randint(5, 50, (1, 16)), "output_attentions": True}
    expected = model(**run)
    speed_up(model)
    with pytest.warns(UserWarning, match="attention weights are requested"):
        actual = model(**run)
    assert torch.equal(actual.attentions[0], expected.attentions[0])
    assert torch.equal(actual.last_hidden_state, expected.last_hidden_state)


def test_names_and_classes_come_back():
    model = longformer([8, 4])
    names, before = list(model.state_dict()), [type(module) for module in model.modules()]
    assert speed_up(model) is model
    assert list(model.state_dict()) == names
    changed = [type(m) for m, t in zip(model.modules(), before, strict=True) if type(m) is not t]
    assert changed == [WindowedLongformerEncoder, *[WindowedLongformerAttention] * 2]
    assert restore(model) is model
    assert [type(module) for module in model.modules()] == before
    encoder = speed_up(led()).encoder
    assert sum(isinstance(module, WindowedLEDAttention) for module in encoder.modules()) == 2


def test_what_overflows_in_float16_is_limited_as_in_transformers():
    layer = speed_up(led().encoder.half()).layers[0]
    layer.final_layer_norm.weight.data.fill_(6e4)
    hidden_states = torch.randn(1, 8, 16).half()
    layout = WindowLayout.from_masks(*torch.zeros(2, 1, 8, dtype=torch.bool))
    (out,) = layer(hidden_states, layout)
    assert out.isfinite().all()
    assert out.abs().max() == torch.finfo(torch.float16).max - 1000


@pytest.mark.parametrize("reentrant", [False, True])
def test_training_with_gradient_checkpointing(reentrant):
    model = longformer([8, 4]).train()
    run, _ = encode(20, "left", "first")

    def gradient():
        model.zero_grad()
        run(model).square().sum().backward()
        return torch.cat([x.grad.flatten() for x in model.encoder.parameters()])

    speed_up(model)
    expected = gradient()
    model.gradient_checkpointing_enable({"use_reentrant": reentrant})
    if reentrant:
        model.enable_input_require_grads()
    assert relative_error(gradient(), expected) < 1e-12


def test_a_masked_language_model_learns():
    torch.manual_seed(0)
    config = longformer([8, 4], hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.1).config
    model = speed_up(LongformerForMaskedLM(config)).train()
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    ids = torch.randint(5, 50, (2, 24))
    losses = []
    for _ in range(15):
        optimizer.zero_grad()
        loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.7 * losses[0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_other_dtypes_are_the_same_within_rounding(dtype):
    model = longformer([8, 4]).eval()
    run, real = encode(40, "right", "first")
    with torch.no_grad():
        exact = run(model)[real.bool()]
        slow = run(model.to(dtype))[real.bool()]
        fast = run(speed_up(model))[real.bool()]
    assert fast.dtype == dtype
    assert relative_error(fast, exact) < 1.5 * relative_error(slow, exact)


class Largest(TorchDispatchMode):
    """Elements of the largest tensor that anything computes."""

    elements = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **kwargs or {})
        if isinstance(result, torch.Tensor):
            self.elements = max(self.elements, result.numel())
        return result


@pytest.mark.parametrize("build", [lambda: longformer([8, 4]), lambda: led().encoder])
def test_no_tensor_is_quadratic(build):
    run, _ = encode(560, "right", "first", batch=2)
    model = build()
    config = model.config
    with torch.no_grad():
        expected = run(model)
        speed_up(model)
        with Largest() as largest:
            actual = run(model)
    assert largest.elements < 2 * 560 * 560 / 4
    assert actual.shape == expected.shape
    assert restore(model).config is config


@pytest.mark.parametrize("padding", ["none", "gaps"])
def test_projections_that_are_more_than_linear_are_called(padding):
    class Scaled(torch.nn.Linear):
        def forward(self, x):
            return 2 * super().forward(x)

    model = longformer([8, 4])
    for layer in model.encoder.layer:
        layer.attention.self.key_global.__class__ = Scaled
    check(model, *encode(40, padding, "first"))
