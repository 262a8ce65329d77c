"""Encoders captured as CUDA graphs: the same outputs, whatever the inputs, shapes and weights."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from copy import deepcopy

import pytest
import torch
from torch import nn
from transformers import (
    BertConfig,
    BertModel,
    LEDConfig,
    LEDForConditionalGeneration,
    LEDModel,
    LongformerConfig,
    LongformerModel,
    LongT5Config,
    LongT5EncoderModel,
    LongT5ForConditionalGeneration,
    PrinterCallback,
    Trainer,
    TrainingArguments,
)
from transformers.models.led.modeling_led import LEDEncoder
from transformers.models.longformer.modeling_longformer import LongformerEncoder

from foveate.models.fovea import FoveaConfig, FoveaEncoderModel
from foveate.models.speed_ups import cuda_graphs, graph_capture, restore, speed_up
from foveate.models.speed_ups.cuda_graphs import CapturableEncoder, capture, release
from foveate.models.vcc import VccBertConfig, VccBertModel, VccT5Config, VccT5EncoderModel
from tests.numerics import relative_error
from tests.synchronization import replace_graphs, replace_training_graphs

gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


LED = {
    "vocab_size": 50,
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 1,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 48,
    "attention_window": 32,
    "max_encoder_position_embeddings": 600,
}
LONGT5 = {
    "vocab_size": 50,
    "d_model": 32,
    "d_kv": 16,
    "d_ff": 48,
    "num_layers": 2,
    "num_heads": 2,
    "local_radius": 15,
    "feed_forward_proj": "gated-gelu",
}


def longformer():
    torch.manual_seed(0)
    config = LongformerConfig(
        vocab_size=50,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=48,
        attention_window=32,
        max_position_embeddings=600,
        pad_token_id=1,
    )
    return speed_up(LongformerModel(config)).eval()


def fovea():
    torch.manual_seed(0)
    sizes = {"vocab_size": 50, "d_model": 32, "d_kv": 16, "d_ff": 48, "num_layers": 2}
    # Padding is drawn dropout for, too: without it, training is the same with and without.
    config = FoveaConfig(**sizes, num_heads=2, block_size=32, dropout_rate=0.0)
    return FoveaEncoderModel(config).eval()


def led():
    torch.manual_seed(0)
    return speed_up(LEDModel(LEDConfig(**LED)).encoder).eval()


def longt5(kind):
    torch.manual_seed(0)
    # Padding is drawn dropout for, too: without it, training is the same with and without.
    config = LongT5Config(**LONGT5, encoder_attention_type=kind, dropout_rate=0.0)
    return speed_up(LongT5EncoderModel(config)).eval()


# Exploring draws random scores for padding, too.
VCC = {
    "segment_size": 48,
    "num_segment_layers": 1,
    "block_size": 4,
    "num_fine_blocks": 3,
    "explore_prob": 0.0,
}


def vcc_t5():
    torch.manual_seed(0)
    sizes = {"vocab_size": 50, "d_model": 32, "d_kv": 16, "d_ff": 48, "num_layers": 2}
    return VccT5EncoderModel(VccT5Config(**sizes, num_heads=2, dropout_rate=0.0, **VCC)).eval()


def vcc_bert():
    torch.manual_seed(0)
    config = VccBertConfig(
        vocab_size=50,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=48,
        max_position_embeddings=600,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        **VCC,
    )
    return VccBertModel(config).eval()


MODELS = {
    "Longformer": longformer,
    "LED": led,
    "LongT5 local": lambda: longt5("local"),
    "LongT5 transient-global": lambda: longt5("transient-global"),
    "Fovea": fovea,
    "VCC T5": vcc_t5,
    "VCC BERT": vcc_bert,
}


def agree(found, expected):
    """Graphs compute the padding of a batch, too, so that outputs differ by rounding."""
    return relative_error(found.float(), expected.float()) < 1e-4


def encoder_of(model):
    return model if isinstance(model, CapturableEncoder) else model.encoder


def batch(model, device, batch=2, length=300, padding=0, seed=0):
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(2, 50, (batch, length), generator=generator).to(device)
    mask = torch.ones_like(ids)
    if padding:
        mask[-1, -padding:] = 0
    inputs = {"input_ids": ids, "attention_mask": mask}
    if isinstance(model, LongformerModel | LEDEncoder):
        inputs["global_attention_mask"] = torch.zeros_like(ids)
        inputs["global_attention_mask"][:, seed : seed + 2] = 1
    if isinstance(model, VccT5EncoderModel | VccBertModel):
        inputs["vip_mask"] = torch.zeros_like(ids)
        inputs["vip_mask"][:, 10 + seed : 13 + seed] = 1
    return inputs


def with_gaps(inputs):
    """Padding before the one, and within the other."""
    inputs["attention_mask"][0, :5] = 0
    inputs["attention_mask"][1, 30:33] = 0
    return inputs


def outputs(model, inputs):
    real = inputs["attention_mask"].bool()
    return model(**inputs).last_hidden_state[real]


@pytest.mark.parametrize("name", MODELS)
def test_on_a_cpu_nothing_changes(name):
    model = MODELS[name]()
    inputs = batch(model, "cpu", length=60, padding=7)
    with torch.no_grad():
        before = outputs(model, inputs)
        assert capture(model) is model
        assert torch.equal(outputs(model, inputs), before)
        assert torch.equal(outputs(deepcopy(model), inputs), before)
    assert encoder_of(capture(model)).uses_cuda_graphs
    names = list(model.state_dict())
    assert release(model) is model
    assert not encoder_of(model).uses_cuda_graphs
    assert list(model.state_dict()) == names


def replace_graphs_of_inference(monkeypatch):
    """Replace graphs with the functions that they are of; list the shapes of their inputs."""
    captured = []

    def graph(encode, tensors):
        captured.append(tuple(tensors[0].shape))
        return lambda tensors: encode(*tensors)

    monkeypatch.setattr(cuda_graphs, "Graph", graph)
    return captured


@pytest.fixture
def stand_in(monkeypatch):
    """Instead of graphs, what says for which inputs they were captured."""
    captured = replace_graphs_of_inference(monkeypatch)
    monkeypatch.setattr(torch.cuda, "device", lambda device: nullcontext())
    return captured


@pytest.mark.parametrize("name", MODELS)
def test_encoders_are_captured_without_their_masks(name, stand_in, monkeypatch):
    monkeypatch.setattr(cuda_graphs, "can_replay", lambda *arguments: True)
    model = MODELS[name]()
    captured = capture(deepcopy(model))
    kinds = [batch(model, "cpu", length=70, padding=padding, seed=padding) for padding in (0, 9)]
    kinds.append(batch(model, "cpu", length=64))
    gaps = with_gaps(batch(model, "cpu", length=70))
    embedded = batch(model, "cpu", length=70)
    embedded["inputs_embeds"] = model.get_input_embeddings()(embedded.pop("input_ids"))
    with torch.no_grad():
        for _ in range(3):
            for inputs in (*kinds, gaps, embedded):
                assert agree(outputs(captured, inputs), outputs(model, inputs))
            inputs = {key: x for key, x in kinds[0].items() if key != "attention_mask"}
            unmasked = [one(**inputs).last_hidden_state for one in (captured, model)]
            assert agree(*unmasked)
        assert len(stand_in) == len(cuda_graphs._graphs_by_module[encoder_of(captured)].graphs)
        assert len(stand_in) <= (4 if name == "Fovea" else 3)  # Fovea's are not padded
        states = [one(**kinds[0], output_hidden_states=True) for one in (captured, model)]
        for a, b in zip(*(one.hidden_states for one in states), strict=True):
            assert torch.equal(a, b)
        assert agree(captured(**kinds[0], return_dict=False)[0], model(**kinds[0])[0])


@pytest.fixture
def training_graphs(monkeypatch):
    return replace_training_graphs(monkeypatch, may_wait=True)


def loss_of(hidden_states):
    """One that depends on more than their norms, which the last layer fixes."""
    target = torch.linspace(-1, 1, hidden_states.numel(), device=hidden_states.device)
    return (hidden_states - target.view_as(hidden_states)).square().mean()


def step(model, inputs, seed=0):
    """Add to the gradients those of a loss, whose value is returned."""
    torch.manual_seed(seed)  # of dropout
    loss = loss_of(outputs(model, inputs))
    loss.backward()
    return loss.detach()


def gradients_are_equal(one, other, tolerance=0.0):
    for a, b in zip(one.parameters(), other.parameters(), strict=True):
        assert (a.grad is None) == (b.grad is None)
        if a.grad is not None:  # that of keys' biases is 0, but for rounding
            difference = torch.linalg.vector_norm(b.grad - a.grad)
            assert difference <= tolerance * (1e-3 + torch.linalg.vector_norm(a.grad))
    return True


@pytest.mark.parametrize("name", MODELS)
def test_training_is_captured(name, training_graphs):
    model = MODELS[name]().train()
    captured = capture(deepcopy(model))
    one, other = (batch(model, "cpu", length=60, padding=9, seed=seed) for seed in (0, 1))
    for seed, inputs in enumerate((one, one, other, one, one)):
        for accumulated in range(2):
            losses = [step(each, inputs, 2 * seed + accumulated) for each in (model, captured)]
            assert agree(losses[1], losses[0])
            assert gradients_are_equal(model, captured, 1e-4)
        for each in (model, captured):
            each.zero_grad()
    assert len(training_graphs) >= 1
    graphs = cuda_graphs._training_graphs_by_module[encoder_of(captured)].graphs
    assert len(graphs) == len(training_graphs)
    release(captured)
    assert encoder_of(captured) not in cuda_graphs._training_graphs_by_module


@pytest.mark.parametrize("name", ["Fovea", "LongT5 transient-global"])
def test_gradients_of_inputs_and_of_some_parameters(name, training_graphs, monkeypatch):
    model = MODELS[name]()
    for parameter in model.encoder.block[0].parameters():
        parameter.requires_grad_(False)
    captured = capture(deepcopy(model))
    inputs = batch(model, "cpu", length=60)
    del inputs["input_ids"]
    found = []
    for each in (model, captured, captured, captured):
        embeddings = torch.linspace(-1, 1, 2 * 60 * 32).view(2, 60, 32).requires_grad_()
        each.zero_grad()
        step(each, {**inputs, "inputs_embeds": embeddings})
        found.append(embeddings.grad)
    assert all(agree(x, found[0]) for x in found)
    assert gradients_are_equal(model, captured, 1e-4)
    assert len(training_graphs) == 1
    model.requires_grad_(False), captured.requires_grad_(False)
    of_inference = replace_graphs_of_inference(monkeypatch)
    inputs = batch(model, "cpu")
    for _ in range(3):  # gradients are enabled, but nothing requires them
        assert agree(outputs(captured, inputs), outputs(model, inputs))
    assert len(training_graphs) == len(of_inference) == 1


def test_a_second_batch_before_the_gradients_of_the_first(training_graphs):
    model = longt5("transient-global")
    captured = capture(deepcopy(model))
    one, other = (batch(model, "cpu", length=60, seed=seed) for seed in (0, 1))
    for each in (model, captured):
        for _ in range(3):
            each.zero_grad()
            (outputs(each, one) * outputs(each, other)).sum().backward()
    assert gradients_are_equal(model, captured, 1e-5)
    assert len(training_graphs) == 1


def test_a_pass_without_gradients_is_forgotten(training_graphs):
    model = longt5("transient-global")
    captured = capture(deepcopy(model))
    inputs = batch(model, "cpu", length=60)
    graphs = None
    for _ in range(4):
        kept = outputs(captured, inputs)
        graphs = cuda_graphs._training_graphs_by_module[captured.encoder]
    assert len(training_graphs) == 1
    assert not graphs.may_begin(kept.device)
    del kept
    assert graphs.may_begin(torch.device("cpu"))
    assert relative_error(step(captured, inputs), step(model, inputs)) < 1e-5
    assert gradients_are_equal(model, captured, 1e-5)


def test_going_back_twice(training_graphs):
    model = longt5("transient-global")
    captured = capture(deepcopy(model))
    inputs = batch(model, "cpu", length=60)
    for _ in range(2):
        outputs(captured, inputs)
    losses = [loss_of(outputs(each, inputs)) for each in (model, captured)]
    for loss in losses:
        loss.backward(retain_graph=True)
        loss.backward(retain_graph=True)
    assert gradients_are_equal(model, captured, 1e-5)
    outputs(captured, inputs)
    with pytest.raises(RuntimeError, match="second backward pass"):
        losses[1].backward()


def test_trainer_learns_the_same(training_graphs, tmp_path):
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(3, 50, (4, 70), generator=generator)
    examples = [{"input_ids": row, "labels": row[:5]} for row in ids]
    found = []
    for captures in (False, True):
        torch.manual_seed(0)
        config = LongT5Config(**LONGT5, dropout_rate=0.0, decoder_start_token_id=0)
        model = speed_up(LongT5ForConditionalGeneration(config))
        arguments = TrainingArguments(
            str(tmp_path),
            max_steps=4,
            per_device_train_batch_size=2,
            gradient_accumulation_steps=2,
            learning_rate=0.01,
            logging_steps=1,
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
            use_cpu=not torch.cuda.is_available(),
        )
        trainer = Trainer(capture(model) if captures else model, arguments, train_dataset=examples)
        trainer.remove_callback(PrinterCallback)
        trainer.train()
        found.append([log["loss"] for log in trainer.state.log_history if "loss" in log])
    assert found[1] == pytest.approx(found[0], rel=1e-5)
    assert len(set(found[0])) == 4
    assert len(training_graphs) == 1


def test_steps_that_differ_are_not_captured(training_graphs, monkeypatch):
    checkpointed = fovea().train()
    getattr(
        checkpointed, "activation_checkpointing_enable", checkpointed.gradient_checkpointing_enable
    )()
    inputs = batch(checkpointed, "cpu", length=60)
    for _ in range(3):
        step(capture(checkpointed), inputs)
    assert len(training_graphs) == 0
    monkeypatch.undo()
    assert led().captures_training
    with_layer_drop = LEDModel(LEDConfig(**LED, encoder_layerdrop=0.5)).encoder
    assert not speed_up(with_layer_drop).captures_training


WRITERS = [
    (LEDForConditionalGeneration, LEDConfig(**LED)),
    *(
        (
            LongT5ForConditionalGeneration,
            LongT5Config(**LONGT5, encoder_attention_type=kind, decoder_start_token_id=0),
        )
        for kind in ("local", "transient-global")
    ),
]


@pytest.mark.parametrize(("auto", "config"), WRITERS)
def test_what_writes_is_captured_too(auto, config, stand_in, monkeypatch):
    monkeypatch.setattr(cuda_graphs, "can_replay", lambda *arguments: True)
    torch.manual_seed(0)
    model = speed_up(auto(config)).eval()
    inputs = {"input_ids": torch.randint(3, 50, (2, 70)), "max_new_tokens": 8, "num_beams": 2}
    expected = model.generate(**inputs)
    capture(model)
    for _ in range(3):
        assert torch.equal(model.generate(**inputs), expected)
    assert len(stand_in) == 1


def forward(module):
    return lambda x, layout: module(x)


@torch.no_grad()
def test_shapes_that_come_again_are_captured(stand_in):
    module = nn.Linear(3, 2).eval()
    for alone in range(100, 100 + 4 * graph_capture.MAX_GRAPHS):  # which never come again
        for length in (7, alone):
            x = torch.randn(length, 3)
            assert torch.equal(cuda_graphs.replay(module, forward(module), x, ()), module(x))
    assert stand_in == [(7, 3)]
    for option in (1, 2):
        for _ in range(3):
            cuda_graphs.replay(module, forward(module), x, option)
    assert stand_in == [(7, 3), x.shape, x.shape]


def test_what_has_no_gradients_is_captured_as_in_inference(training_graphs, monkeypatch):
    of_inference = replace_graphs_of_inference(monkeypatch)
    module = nn.Linear(3, 2).eval().requires_grad_(False)
    x, y = torch.randn(4, 3), torch.randn(4, 3, requires_grad=True)
    for _ in range(3):
        assert torch.equal(cuda_graphs.replay(module, forward(module), x, ()), module(x))
    assert of_inference == [(4, 3)]
    output = cuda_graphs.replay(module, lambda x, layout: module(x) * layout.sum(), x, y)
    (gradient,) = torch.autograd.grad(output.sum(), y)
    assert gradient.isfinite().all()
    assert of_inference == [(4, 3)]
    assert not training_graphs


def test_without_enough_memory_nothing_is_captured(monkeypatch, training_graphs):
    tried = []

    def graph(*arguments):
        tried.append(arguments)
        raise torch.OutOfMemoryError

    monkeypatch.setattr(cuda_graphs, "Graph", graph)
    monkeypatch.setattr(cuda_graphs, "TrainingGraph", graph)
    model = longt5("transient-global")
    captured = capture(deepcopy(model))
    inputs = batch(model, "cpu", length=60)
    with torch.no_grad():
        for _ in range(4):
            assert relative_error(outputs(captured, inputs), outputs(model, inputs)) < 1e-5
    assert len(tried) == 1
    for _ in range(4):
        assert relative_error(step(captured, inputs), step(model, inputs)) < 1e-5
    assert len(tried) == 2


@torch.no_grad()
def test_the_latest_graphs_are_kept(stand_in):
    module = nn.Linear(3, 2).eval()
    lengths = range(1, 2 + graph_capture.MAX_GRAPHS)  # one more than are kept
    for _ in range(2):
        for length in lengths:
            cuda_graphs.replay(module, forward(module), torch.randn(length, 3), ())
    assert stand_in == [(length, 3) for length in lengths]
    for length in (2, 1, 2):  # the first was forgotten, and the third is for its sake
        cuda_graphs.replay(module, forward(module), torch.randn(length, 3), ())
    assert stand_in[len(lengths) :] == [(1, 3)]
    assert len(cuda_graphs._graphs_by_module[module].graphs) == graph_capture.MAX_GRAPHS


@torch.no_grad()
def test_graphs_belong_to_the_weights(stand_in):
    module = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3)).eval()
    x = torch.randn(5, 3)

    def again():
        before = len(stand_in)
        for _ in range(3):
            cuda_graphs.replay(module, forward(module), x, ())
        return len(stand_in) - before

    assert again() == 1
    module[0].weight.mul_(2)
    assert again() == 0  # a graph reads what is there
    module[0].weight = nn.Parameter(torch.randn(3, 3))
    assert again() == 1
    module[1].running_mean = torch.zeros(3)
    assert again() == 1
    module.double()
    x = x.double()
    assert again() == 1


@torch.no_grad()
def test_what_hooks_fetch_and_what_trains_is_not_captured(stand_in):
    x = torch.randn(5, 3)
    training = nn.Sequential(nn.Linear(3, 3), nn.Dropout()).eval()
    training[1].train()
    elsewhere = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3, device="meta")).eval()
    for module in (training, elsewhere):
        for _ in range(3):
            out = cuda_graphs.replay(module, forward(module[0]), x, ())
            assert torch.equal(out, module[0](x))
    assert not stand_in


def test_what_cannot_be_captured():
    config = BertConfig(
        hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16
    )
    with pytest.raises(ValueError, match="no encoder to capture in a BertModel"):
        capture(BertModel(config))
    with pytest.raises(ValueError, match="after speed_up"):
        capture(restore(longformer()))


def test_a_captured_longformer_may_be_restored():
    model = longformer()
    inputs = batch(model, "cpu", length=60, padding=7)
    with torch.no_grad():
        before = outputs(model, inputs)
        restored = restore(capture(model))
        assert relative_error(outputs(restored, inputs), before) < 1e-5
    assert type(restored.encoder) is LongformerEncoder


@gpu
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("context", [torch.no_grad, torch.inference_mode])
def test_graphs_give_what_layers_give(name, context):
    model = MODELS[name]().cuda()
    captured = capture(deepcopy(model))
    kinds = [
        batch(model, "cuda", padding=padding, seed=seed) for seed in range(3) for padding in (0, 9)
    ]
    kinds += [with_gaps(batch(model, "cuda", seed=seed)) for seed in range(3)]
    with context():
        for _ in range(2):
            for inputs in kinds:
                assert agree(outputs(captured, inputs), outputs(model, inputs))
    graphs = cuda_graphs._graphs_by_module[encoder_of(captured)].graphs
    # Of the batches with gaps, one sequence has no global tokens: they are in its padding. Fovea's
    # graphs are for the lengths of a batch's sequences.
    assert len(graphs) == {"Longformer": 2, "LED": 2, "Fovea": 3}.get(name, 1)


@gpu
@pytest.mark.parametrize(("auto", "config"), WRITERS)
def test_graphs_of_what_writes(auto, config):
    torch.manual_seed(0)
    model = speed_up(auto(config)).eval().cuda()
    ids = torch.randint(3, 50, (2, 70), device="cuda")
    inputs = {"input_ids": ids, "max_new_tokens": 8, "num_beams": 2}
    expected = model.generate(**inputs)
    capture(model)
    for _ in range(3):
        assert torch.equal(model.generate(**inputs), expected)
    assert len(cuda_graphs._graphs_by_module[model.get_encoder()].graphs) == 1


@gpu
@pytest.mark.parametrize("name", MODELS)
def test_graphs_follow_the_weights(name):
    model = MODELS[name]().cuda()
    captured = capture(deepcopy(model))
    inputs = batch(model, "cuda", padding=9)
    with torch.no_grad():
        for _ in range(3):
            first = outputs(captured, inputs)
        for change in (
            lambda m: [p.mul_(1.1) for p in m.parameters()],
            lambda m: m.to(torch.bfloat16),
            lambda m: m.load_state_dict({k: v / 2 for k, v in m.state_dict().items()}, assign=True),
        ):
            change(model), change(captured)
            for _ in range(3):
                second = outputs(captured, inputs)
                assert relative_error(second.float(), outputs(model, inputs).float()) < (
                    1e-4 if second.dtype == torch.float32 else 2e-2
                )
            assert relative_error(second.float(), first.float()) > 1e-3


@gpu
@pytest.mark.parametrize("name", MODELS)
def test_graphs_under_autocast_follow_the_weights(name):
    model = MODELS[name]().cuda()
    captured = capture(deepcopy(model))
    inputs = batch(model, "cuda", padding=9)
    for factor in (1.0, 1.1, 0.7):
        with torch.no_grad():
            for weights in (model, captured):
                for x in weights.parameters():
                    x.mul_(factor)
            for _ in range(3):
                with torch.autocast("cuda", torch.bfloat16):
                    expected, actual = outputs(model, inputs), outputs(captured, inputs)
                assert relative_error(actual.float(), expected.float()) < 2e-2
                torch.full((1 << 26,), torch.nan, device="cuda")  # where something was freed


@gpu
def test_training_on_many_shapes_needs_the_memory_of_a_few():
    module = nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64)).cuda()
    count = 6 * graph_capture.MAX_GRAPHS
    reserved = []
    for i in range(count):
        x = torch.randn(10_000 + 1_000 * (7 * i % count), 64, device="cuda")  # small and large ones
        for _ in range(3):
            cuda_graphs.replay(module, forward(module), x, ()).sum().backward()
        torch.cuda.empty_cache()
        reserved.append(torch.cuda.memory_reserved())
    assert max(reserved[count // 2 :]) < 1.5 * max(reserved[: count // 2])


@gpu
@pytest.mark.parametrize("name", MODELS)
def test_outputs_are_kept_and_graphs_are_forgotten(name):
    model = MODELS[name]().cuda()
    captured = capture(deepcopy(model))
    with torch.no_grad():
        for length in range(40, 40 + 2 * graph_capture.MAX_GRAPHS):
            inputs = batch(model, "cuda", length=length)
            kept = [outputs(captured, inputs) for _ in range(3)]
            outputs(captured, batch(model, "cuda", length=length, seed=1))
            for some in kept:
                assert agree(some, outputs(model, inputs))
    graphs = cuda_graphs._graphs_by_module[encoder_of(captured)].graphs
    assert len(graphs) <= (graph_capture.MAX_GRAPHS if name == "Fovea" else 2)
    release(captured)
    assert encoder_of(captured) not in cuda_graphs._graphs_by_module


@gpu
@pytest.mark.parametrize("name", MODELS)
def test_threads_get_their_own_outputs(name):
    model = MODELS[name]().cuda()
    captured = capture(deepcopy(model))
    kinds = [batch(model, "cuda", seed=seed) for seed in range(4)]
    with torch.no_grad():
        expected = [outputs(model, inputs) for inputs in kinds]

    def run(number):
        with torch.no_grad(), torch.cuda.stream(torch.cuda.Stream()):
            found = [outputs(captured, kinds[number]) for _ in range(20)]
            torch.cuda.current_stream().synchronize()
        return all(agree(some, expected[number]) for some in found)

    torch.cuda.synchronize()
    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(run, range(4)))


@gpu
def test_other_backends_are_not_captured(monkeypatch):
    monkeypatch.setenv("FOVEATE_BACKEND", "eager")
    captured = capture(fovea().cuda())
    inputs = batch(captured, "cuda")
    with torch.no_grad():
        first, *others = (outputs(captured, inputs) for _ in range(3))
    for some in others:
        assert torch.equal(some, first)
    assert encoder_of(captured) not in cuda_graphs._graphs_by_module


@gpu
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_training_with_graphs(name, dtype):
    model = MODELS[name]().cuda().train()
    captured = capture(deepcopy(model))
    for seed, padding in enumerate((0, 0, 9, 0, 9, 0)):
        inputs = batch(model, "cuda", padding=padding, seed=seed % 2)
        with torch.autocast("cuda", dtype, enabled=dtype != torch.float32):
            losses = [[step(each, inputs, seed) for _ in range(2)] for each in (model, captured)]
        assert relative_error(torch.stack(losses[1]), torch.stack(losses[0])) < 1e-3
        # Sums over programs that end in any order differ by rounding.
        assert gradients_are_equal(model, captured, 1e-4 if dtype == torch.float32 else 2e-2)
        for each in (model, captured):
            each.zero_grad()
        torch.full((1 << 26,), torch.nan, device="cuda")  # where something was freed
    assert len(cuda_graphs._training_graphs_by_module[encoder_of(captured)].graphs) >= 1
    without_seed = {outputs(captured, inputs)[0].detach().abs().sum().item() for _ in range(4)}
    # Each draws its own dropout, if it has one.
    assert len(without_seed) == (4 if name in ("Longformer", "LED") else 1)


@gpu
@pytest.mark.parametrize("name", ["LongT5 local", "LongT5 transient-global"])
def test_padded_rows_draw_dropout_anew(name):
    model = MODELS[name]().cuda()
    for part in model.modules():
        if isinstance(part, nn.Dropout):
            part.p = 0.1
    model = capture(model.train())
    inputs = batch(model, "cuda")
    sums = set()
    for _ in range(6):
        model.zero_grad()
        sums.add(float(step(model, inputs, seed=len(sums))))
        assert all(x.grad.isfinite().all() for x in model.parameters() if x.grad is not None)
    assert len(cuda_graphs._training_graphs_by_module[encoder_of(model)].graphs) == 1
    assert len(sums) == 6


def with_lengths(inputs, lengths, seed):
    """Let sequences have other lengths: with padding at the end for two seeds, then anywhere."""
    shape = inputs["input_ids"].shape
    places = torch.rand(shape, generator=torch.Generator().manual_seed(seed)).argsort()
    if seed < 2:
        places = torch.arange(shape[1]).expand(shape)
    real = places < torch.tensor(lengths)[:, None]
    inputs["attention_mask"] = real.long().to(inputs["input_ids"].device)
    return real


def share_a_graph(model, batches):
    """Return whether a captured model agrees with one that is not, with one graph of each kind."""
    captured = capture(deepcopy(model))
    for inputs in batches:
        assert agree(step(captured, inputs), step(model, inputs))
        assert gradients_are_equal(model, captured, 1e-4)
        with torch.no_grad():
            assert agree(outputs(captured, inputs), outputs(model, inputs))
            assert (captured(**inputs).last_hidden_state[inputs["attention_mask"] == 0] == 0).all()
    for graphs in (cuda_graphs._graphs_by_module, cuda_graphs._training_graphs_by_module):
        assert len(graphs[encoder_of(captured)].graphs) == 1
    return True


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=gpu)])
@pytest.mark.parametrize("name", ["VCC T5", "VCC BERT"])
def test_vccs_of_any_lengths_share_a_graph(name, device, monkeypatch):
    if device == "cpu":
        replace_graphs(monkeypatch), replace_training_graphs(monkeypatch)
    model, batches = MODELS[name]().to(device), []
    all_lengths = [[300, 5, 170], [295, 289, 3], [301, 64, 65], [304, 1, 48]]
    vip_counts = [[3, 2, 7], [1, 16, 3], [5, 1, 2], [16, 1, 9]]
    for seed, (lengths, counts) in enumerate(zip(all_lengths, vip_counts, strict=True)):
        inputs = batch(model, device, 3, 400, seed=seed)
        real = with_lengths(inputs, lengths, seed)
        is_vip = real & (real.cumsum(1) <= torch.tensor(counts)[:, None])
        inputs["vip_mask"] = is_vip.long().to(device)
        batches.append(inputs)
    assert share_a_graph(model, batches)


@pytest.mark.parametrize("has_mask", [True, False])
def test_sequences_shorter_than_their_slots_share_a_graph(has_mask, monkeypatch):
    replace_graphs(monkeypatch), replace_training_graphs(monkeypatch)
    model, batches = vcc_t5(), []
    model.encoder.config.num_vip_slots = 8
    for seed, lengths in enumerate([[300, 5, 170], [295, 289, 3], [301, 64, 65]]):
        inputs = batch(model, "cpu", 3, 400, seed=seed)
        real = with_lengths(inputs, lengths, seed)
        inputs["vip_mask"] = (real & (real.cumsum(1) <= 2)).long()
        batches.append(inputs if has_mask else {k: x for k, x in inputs.items() if k != "vip_mask"})
    assert share_a_graph(model, batches)


@gpu
def test_training_steps_do_not_wait_for_the_gpu():
    model = capture(longt5("transient-global").cuda().train())
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    kinds = [batch(model, "cuda", padding=padding, seed=padding) for padding in (0, 9, 20, 7)]
    for waits, inputs in zip((True, True, True, False), kinds, strict=True):
        torch.cuda.set_sync_debug_mode("default" if waits else "error")
        try:
            hidden_states = model(**inputs).last_hidden_state
            hidden_states.square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
        finally:
            torch.cuda.set_sync_debug_mode("default")
    assert len(cuda_graphs._training_graphs_by_module[encoder_of(model)].graphs) == 1


@gpu
@pytest.mark.parametrize("name", MODELS)
def test_training_and_hidden_states_are_as_before(name):
    model = MODELS[name]().cuda()
    captured = capture(deepcopy(model))
    inputs = batch(model, "cuda")
    for one in (model, captured):
        loss_of(one(**inputs).last_hidden_state).backward()
    assert gradients_are_equal(model, captured, 1e-4)
    with torch.no_grad():
        all_states = [
            one(**inputs, output_hidden_states=True).hidden_states for one in (model, captured)
        ]
    assert len(all_states[1]) == 3
    for a, b in zip(*all_states, strict=True):
        assert torch.equal(a, b)
