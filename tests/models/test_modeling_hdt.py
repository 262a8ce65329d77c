import warnings

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForMaskedLM,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    Trainer,
    TrainingArguments,
)

from foveate.models.hdt import (
    HDTConfig,
    HDTForMaskedLM,
    HDTForSequenceClassification,
    HDTForTokenClassification,
    HDTModel,
)
from foveate.ops.tree_attention import Tree
from tests.numerics import relative_error
from tests.trees import forests

#                        doc sec sent tok tok sent tok sec sent tok
IDS = torch.tensor([[1, 2, 3, 10, 11, 3, 12, 2, 3, 13]])
PARENTS = torch.tensor([[-1, 0, 1, 2, 2, 1, 5, 0, 7, 8]])

POSITIONS = ("hierarchical", "rotary")


@pytest.fixture(params=POSITIONS)
def hdt_config(request, hdt_config):
    hdt_config.position_embedding_type = request.param
    return hdt_config


def encode(model, ids, parents, mask=None):
    with torch.no_grad():
        return model(ids, mask, parents)


@given(
    forests(max_nodes=15, shuffled=False),
    forests(max_nodes=15, shuffled=False),
    st.booleans(),
    st.sampled_from(POSITIONS),
)
def test_a_row_depends_neither_on_padding_nor_on_its_batch_mates(one, other, left, positions):
    torch.manual_seed(0)
    sizes = {"vocab_size": 60, "d_model": 16, "d_kv": 8, "d_ff": 24, "num_layers": 2}
    config = HDTConfig(**sizes, num_heads=2, position_embedding_type=positions)
    model = HDTModel(config).double().eval()
    length = max(len(one), len(other)) + 3
    ids = torch.randint(0, 60, (2, length))
    parents = torch.full((2, length), 7777)
    mask = torch.zeros(2, length, dtype=torch.long)
    for row, forest in enumerate((one, other)):
        shift = length - len(forest) if left else 0
        place = slice(shift, shift + len(forest))
        parents[row, place] = torch.tensor([p if p < 0 else p + shift for p in forest])
        mask[row, place] = 1
    together = encode(model, ids, parents, mask)
    alone = encode(model, ids[:1][mask[:1] == 1][None], torch.tensor([one]))
    real = together.last_hidden_state[0][mask[0] == 1]
    assert relative_error(real, alone.last_hidden_state[0]) < 1e-12
    assert relative_error(together.pooler_output[:1], alone.pooler_output) < 1e-12
    assert (together.last_hidden_state[mask == 0] == 0).all()


@pytest.mark.parametrize("hdt_config", ["hierarchical"], indirect=True)
def test_positions_are_counted_among_siblings(hdt):
    tree = Tree.from_parents(PARENTS[0])
    code = tree.from_level_order(hdt.encoder.embed_positions.encoding(tree))
    angle = torch.arange(4.0).double()[:, None] * 10000.0 ** (-torch.arange(0, 16, 2).double() / 16)
    table = torch.stack([angle.sin(), angle.cos()], -1).flatten(1)
    paths = [(0, 0, 0), (1, 0, 0), (1, 1, 0), (1, 1, 1), (1, 1, 2), (1, 2, 0), (1, 2, 1), (2, 0, 0)]
    for row, path in enumerate(paths):
        assert relative_error(code[row], sum(table[p] for p in path)) < 1e-12


@pytest.mark.parametrize("hdt_config", ["rotary"], indirect=True)
def test_rotary_positions_by_dense_attention(hdt):
    """One block in the order of the input, with complex rotations and a mask of all pairs."""
    parents = PARENTS[0]
    sees = torch.eye(10, dtype=torch.bool) | (parents[:, None] == torch.arange(10))
    sees |= sees.T | (parents[:, None] == parents) & (parents >= 0)
    block = hdt.encoder.block[0]
    attention = block.layer[0].SelfAttention
    states = hdt.encoder.emb_norm(hdt.shared(IDS[0]))
    normed = states * (states**2).mean(-1, keepdim=True).rsqrt() * block.layer[0].layer_norm.weight
    q, k, v = (
        x.unflatten(-1, (attention.num_heads, -1)).transpose(0, 1)
        for x in attention.qkv(normed).chunk(3, -1)
    )
    half = q.shape[-1] // 2
    turns = torch.outer(torch.arange(10.0), 10_000.0 ** -(torch.arange(half) / half)).double()
    turns = torch.polar(torch.ones_like(turns), turns)
    q, k = (torch.complex(x[..., :half], x[..., half:]) * turns for x in (q, k))
    scores = (q @ k.mH).real / (2 * half) ** 0.5
    weights = scores.masked_fill(~sees, -torch.inf).softmax(-1)
    expected = states + attention.o((weights @ v).transpose(0, 1).flatten(1))
    found = []
    block.layer[1].register_forward_pre_hook(lambda _, inputs: found.append(sum(inputs)))
    encode(hdt, IDS, PARENTS)
    tree = Tree.from_parents(parents)
    assert relative_error(tree.from_level_order(found[0]), expected) < 1e-6


def test_packed_rows_give_what_padded_rows_give(hdt):
    tree = Tree.from_parents(PARENTS[0])
    padded = encode(hdt, IDS, PARENTS)
    with torch.no_grad():
        packed = hdt(tree.to_level_order(IDS[0])[None], tree=tree.in_level_order)
    rows = tree.from_level_order(packed.last_hidden_state[0])
    assert relative_error(rows, padded.last_hidden_state[0]) < 1e-12
    assert relative_error(packed.pooler_output, padded.pooler_output) < 1e-12


def test_gradient_checkpointing_changes_no_gradient(hdt_config):
    hdt_config.dropout_rate = 0.0
    model = HDTForMaskedLM(hdt_config).double().train()
    gradients = []
    for checkpointed in (False, True):
        if checkpointed:
            # Newer versions of transformers renamed it.
            getattr(model, "activation_checkpointing_enable", model.gradient_checkpointing_enable)()
        model.zero_grad()
        model(IDS, parent_ids=PARENTS, labels=IDS).loss.backward()
        gradients.append(
            torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])
        )
    assert relative_error(*gradients) < 1e-12


def test_logits_of_all_or_of_labelled_tokens(hdt_config):
    hdt_config.dropout_rate = 0.0
    labels = torch.full_like(IDS, -100)
    labels[0, 3], labels[0, 6], labels[0, 8] = 7, 2, 5
    model = HDTForMaskedLM(hdt_config).double()
    dense = model(IDS, parent_ids=PARENTS).logits
    assert dense.shape == (1, 10, hdt_config.vocab_size)
    expected = torch.nn.functional.cross_entropy(dense.flatten(0, 1), labels.flatten())
    for sparse, logits in ((False, dense), (True, dense[0, [3, 6, 8]])):
        model.config.sparse_prediction = sparse
        output = model(IDS, parent_ids=PARENTS, labels=labels)
        assert relative_error(output.logits, logits) < 1e-12
        assert relative_error(output.loss, expected) < 1e-12
    parameters = [p for p in model.parameters() if p.requires_grad]
    for pair in zip(
        *(torch.autograd.grad(x, parameters, allow_unused=True) for x in (output.loss, expected)),
        strict=True,
    ):
        assert pair[1] is None or relative_error(*pair) < 1e-12


def test_hidden_states_and_tuples(hdt):
    output = hdt(IDS, parent_ids=PARENTS, output_hidden_states=True)
    assert len(output.hidden_states) == 3
    assert torch.equal(output.hidden_states[-1], output.last_hidden_state)
    tree = Tree.from_parents(PARENTS[0])
    first, second = (tree.to_level_order(states[0]) for states in output.hidden_states[:2])
    rotary = hdt.encoder.rotary_positions
    rotation = rotary and rotary(tree.in_level_order)
    hidden_states, update = hdt.encoder.block[0](first, tree.in_level_order, None, rotation)
    assert relative_error(second, hidden_states + update) < 1e-6
    assert torch.equal(hdt(IDS, parent_ids=PARENTS, return_dict=False)[0], output[0])


def test_ids_and_embeddings_together_are_refused(hdt):
    embeddings = hdt.get_input_embeddings()(IDS)
    assert torch.equal(
        hdt(inputs_embeds=embeddings, parent_ids=PARENTS)[0], hdt(IDS, None, PARENTS)[0]
    )
    with pytest.raises(ValueError, match="give either input_ids or inputs_embeds"):
        hdt(IDS, inputs_embeds=embeddings, parent_ids=PARENTS)


def test_attention_weights_are_not_returned(hdt):
    with pytest.warns(UserWarning, match="HDT never materializes attention weights"):
        assert hdt(IDS, parent_ids=PARENTS, output_attentions=True).get("attentions") is None


@pytest.mark.parametrize(
    ("auto", "model_class"),
    [
        (AutoModel, HDTModel),
        (AutoModelForMaskedLM, HDTForMaskedLM),
        (AutoModelForSequenceClassification, HDTForSequenceClassification),
        (AutoModelForTokenClassification, HDTForTokenClassification),
    ],
)
def test_auto_classes_save_and_load(auto, model_class, hdt_config, tmp_path):
    model = model_class(hdt_config).eval()
    model.save_pretrained(tmp_path)
    assert isinstance(AutoConfig.from_pretrained(tmp_path), HDTConfig)
    again = auto.from_pretrained(tmp_path).eval()
    assert type(again) is model_class
    outputs = encode(model, IDS, PARENTS)[0], encode(again, IDS, PARENTS)[0]
    assert relative_error(*outputs) < 1e-6


@pytest.mark.parametrize("other", POSITIONS)
def test_positions_that_a_checkpoint_does_not_have_are_pointed_out(hdt_config, other, tmp_path):
    HDTForMaskedLM(hdt_config).save_pretrained(tmp_path)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = AutoModel.from_pretrained(tmp_path, position_embedding_type=other)
    assert model.config.position_embedding_type == other
    warned = [str(w.message) for w in caught if "was not trained with" in str(w.message)]
    assert len(warned) == (other != hdt_config.position_embedding_type)
    assert all(f"{other} positions: leave position_embedding_type out" in w for w in warned)


def test_fields_that_override_a_checkpoint_are_validated(hdt, tmp_path):
    hdt.save_pretrained(tmp_path)
    with pytest.raises(ValueError, match=r"position_embedding_type must be one of .* 'rotery'"):
        HDTModel.from_pretrained(tmp_path, position_embedding_type="rotery")


def test_every_weight_has_an_initial_value(hdt_config):
    for model_class in (HDTForMaskedLM, HDTForTokenClassification):
        model = model_class(hdt_config)
        for module in model.modules():
            module._is_hf_initialized = False
        for parameter in model.parameters():
            parameter.data.fill_(float("nan"))
        model.initialize_weights()
        poisoned = [name for name, p in model.named_parameters() if not p.isfinite().all()]
        assert poisoned == []


def test_single_and_multiple_labels_of_documents(hdt_config):
    hdt_config.num_labels = 3
    single = HDTForSequenceClassification(hdt_config)
    output = single(IDS, parent_ids=PARENTS, labels=torch.tensor([2]))
    assert output.logits.shape == (1, 3)
    assert output.loss.isfinite()
    assert hdt_config.problem_type == "single_label_classification"
    hdt_config.problem_type = None
    multiple = HDTForSequenceClassification(hdt_config)
    assert multiple(IDS, parent_ids=PARENTS, labels=torch.tensor([[1.0, 0.0, 1.0]])).loss.isfinite()
    assert hdt_config.problem_type == "multi_label_classification"


def test_tokens_are_classified_as_by_transformers(hdt_config, tmp_path):
    HDTForMaskedLM(hdt_config).save_pretrained(tmp_path)
    model = AutoModelForTokenClassification.from_pretrained(
        tmp_path, id2label={0: "O", 1: "B", 2: "I"}
    )
    assert type(model).__name__ == "HDTForTokenClassification"
    labels = torch.where(IDS < 10, -100, IDS % 3)
    output = model.eval()(IDS, parent_ids=PARENTS, labels=labels)
    assert output.logits.shape == (1, 10, 3)
    expected = model.loss_function(output.logits, labels, model.config)
    assert relative_error(output.loss, expected) < 1e-6
    examples = [{"input_ids": IDS[0], "parent_ids": PARENTS[0], "labels": labels[0]}] * 4
    arguments = TrainingArguments(
        str(tmp_path), use_cpu=True, max_steps=2, report_to=[], dataloader_pin_memory=False
    )
    trainer = Trainer(model, arguments, train_dataset=examples, eval_dataset=examples)
    assert trainer.train().training_loss > 0
    assert trainer.predict(examples).predictions.shape == (4, 10, 3)


def test_labels_of_anchors_count_only_where_they_are_given(hdt_config):
    hdt_config.num_labels = 3
    model = HDTForTokenClassification(hdt_config).eval()
    labels = torch.full((1, 10), -100)
    labels[0, 1], labels[0, 7] = 0, 2  # the two sections
    output = model(IDS, parent_ids=PARENTS, labels=labels)
    logits = output.logits[0, [1, 7]]
    expected = torch.nn.functional.cross_entropy(logits, torch.tensor([0, 2]))
    assert relative_error(output.loss, expected) < 1e-6
    several = torch.full((1, 10, 3), -100.0)
    several[0, 1], several[0, 7] = torch.tensor([1.0, 0, 1]), torch.tensor([0.0, 0, 0])
    loss = model(IDS, parent_ids=PARENTS, labels=several).loss
    expected = torch.nn.functional.binary_cross_entropy_with_logits(logits, several[0, [1, 7]])
    assert relative_error(loss, expected) < 1e-6


def test_trainer_learns(hdt_config, tmp_path):
    torch.manual_seed(0)
    hdt_config.num_labels, hdt_config.dropout_rate, hdt_config.classifier_dropout = 2, 0.0, 0.0
    examples = [
        {"input_ids": IDS[0], "parent_ids": PARENTS[0], "labels": 0},
        {"input_ids": IDS[0].flip(0), "parent_ids": PARENTS[0], "labels": 1},
    ]
    arguments = TrainingArguments(
        str(tmp_path),
        max_steps=12,
        learning_rate=1e-2,
        report_to=[],
        disable_tqdm=True,
        save_strategy="no",
        use_cpu=True,
        dataloader_pin_memory=False,
    )
    trainer = Trainer(
        HDTForSequenceClassification(hdt_config), arguments, train_dataset=examples * 4
    )
    trainer.train()
    predicted = trainer.predict(examples).predictions.argmax(-1)
    assert predicted.tolist() == [0, 1]


def test_a_trainer_gathers_the_logits_of_masked_tokens(hdt_config, tmp_path):
    examples = [{"input_ids": IDS[0], "parent_ids": PARENTS[0], "labels": IDS[0]}] * 5
    options = {"use_cpu": True, "per_device_eval_batch_size": 2, "report_to": []}
    arguments = TrainingArguments(str(tmp_path), dataloader_pin_memory=False, **options)
    trainer = Trainer(
        HDTForMaskedLM(hdt_config),
        arguments,
        eval_dataset=examples,
        compute_metrics=lambda found: {
            "accuracy": (found.predictions.argmax(-1) == found.label_ids).mean()
        },
    )
    assert 0 <= trainer.evaluate()["eval_accuracy"] <= 1
    assert trainer.predict(examples).predictions.shape == (5, 10, hdt_config.vocab_size)


def test_accumulated_gradients_equal_those_of_one_batch(hdt_config, tmp_path):
    hdt_config.dropout_rate = 0.0
    example = {"input_ids": IDS[0], "parent_ids": PARENTS[0], "labels": IDS[0]}
    losses = []
    for size, steps in ((4, 1), (1, 4)):
        torch.manual_seed(0)
        arguments = TrainingArguments(
            str(tmp_path),
            per_device_train_batch_size=size,
            gradient_accumulation_steps=steps,
            max_steps=2,
            logging_steps=1,
            report_to=[],
            disable_tqdm=True,
            save_strategy="no",
            use_cpu=True,
            dataloader_pin_memory=False,
        )
        trainer = Trainer(HDTForMaskedLM(hdt_config), arguments, train_dataset=[example] * 8)
        trainer.train()
        losses.append([log["loss"] for log in trainer.state.log_history if "loss" in log])
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)


@pytest.mark.parametrize("model_class", [HDTForMaskedLM, HDTForTokenClassification])
def test_every_trained_weight_takes_part_in_the_loss(model_class, hdt_config):
    model = model_class(hdt_config)
    labels = IDS if model_class is HDTForMaskedLM else IDS % 2
    model(IDS, parent_ids=PARENTS, labels=labels).loss.backward()
    left_out = [n for n, p in model.named_parameters() if p.requires_grad and p.grad is None]
    assert left_out == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"input_ids": IDS}, "parent_ids are missing"),
        ({"parent_ids": PARENTS}, "HDT needs input_ids or inputs_embeds"),
        ({"input_ids": IDS, "parent_ids": PARENTS[0]}, "share one shape"),
        ({"input_ids": IDS.repeat(1, 2), "parent_ids": PARENTS}, "share one shape"),
        ({"input_ids": IDS.repeat(2, 1), "parent_ids": PARENTS}, "share one shape"),
        (
            {"input_ids": IDS, "parent_ids": PARENTS + 9},
            "node 1 of sequence 0 has parent 9|has parent",
        ),
        (
            {"input_ids": IDS, "parent_ids": PARENTS, "attention_mask": torch.zeros(1, 10)},
            "sequence 0 of the batch is all padding",
        ),
        (
            {"input_ids": IDS, "parent_ids": PARENTS, "attention_mask": (PARENTS != -1).long()},
            "node 1 of sequence 0 has parent 0, which is padding",
        ),
        ({"input_ids": IDS, "tree": Tree.from_parents(PARENTS[0])}, "must be in level order"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(hdt, arguments, message):
    with pytest.raises(ValueError, match=message):
        hdt(**arguments)


def test_impossible_fields_are_refused():
    with pytest.raises(ValueError, match="feed_forward_proj='gated-by-gelu'"):
        HDTConfig(feed_forward_proj="gated-by-gelu")
    with pytest.raises(ValueError, match=r"unknown edges \['cousins'\]: choose among"):
        HDTConfig(edges=["parent", "cousins"])
    with pytest.raises(ValueError, match=r"position_embedding_type must be one of .* 'learned'"):
        HDTConfig(position_embedding_type="learned")
    with pytest.raises(ValueError, match="d_kv must be even, got 7"):
        HDTConfig(position_embedding_type="rotary", d_kv=7)
    with pytest.raises(ValueError, match=r"rope_theta must be positive, got -1\.0"):
        HDTConfig(rope_theta=-1.0)
    with pytest.raises(ValueError, match="'gated-glue': there is no activation 'glue'"):
        HDTConfig(feed_forward_proj="gated-glue")


@pytest.mark.parametrize("sizes", [{"num_heads": 0}, {"d_kv": -8}, {"num_layers": -1}])
def test_impossible_sizes_are_refused(sizes):
    with pytest.raises(ValueError, match="must be at least"):
        HDTConfig(**sizes)


def test_numbers_may_be_whole():
    assert HDTConfig(dropout_rate=0, classifier_dropout=0, initializer_factor=1).dropout_rate == 0


def test_gated_feed_forward():
    config = HDTConfig(
        vocab_size=60,
        d_model=16,
        d_kv=8,
        d_ff=24,
        num_layers=1,
        num_heads=2,
        feed_forward_proj="gated-gelu",
    )
    model = HDTModel(config).eval()
    layer = model.encoder.block[0].layer[1].DenseReluDense
    x = torch.randn(5, 16)
    first, second = layer.wi_01(x).chunk(2, -1)
    assert relative_error(layer(x), layer.wo(layer.activation(first) * second)) < 1e-6
