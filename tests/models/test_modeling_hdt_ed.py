import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from safetensors.torch import load_file
from transformers import (
    AutoConfig,
    AutoModelForSeq2SeqLM,
    DataCollatorForSeq2Seq,
    DynamicCache,
    EncoderDecoderCache,
)

from foveate.models.hdt import HDTConfig, HDTForConditionalGeneration
from foveate.models.hdt.modeling_hdt_ed import select_memory
from foveate.ops.tree_attention import Tree
from tests.models.test_hdt_published import save_published
from tests.numerics import relative_error
from tests.synchronization import no_waiting
from tests.trees import forests

#                        doc sec sent tok tok sent tok sec sent tok
IDS = torch.tensor([[1, 2, 3, 10, 11, 3, 12, 2, 3, 13]])
PARENTS = torch.tensor([[-1, 0, 1, 2, 2, 1, 5, 0, 7, 8]])
LABELS = torch.tensor([[20, 21, 22, 1]])


with_both_positions = pytest.mark.parametrize("config", ["hierarchical", "rotary"], indirect=True)


@pytest.fixture
def config(request):
    return HDTConfig(
        position_embedding_type=getattr(request, "param", "hierarchical"),
        vocab_size=60,
        d_model=16,
        d_kv=8,
        d_ff=24,
        num_layers=2,
        num_decoder_layers=2,
        num_heads=2,
        dropout_rate=0.0,
    )


@pytest.fixture
def model(config):
    torch.manual_seed(1)
    model = HDTForConditionalGeneration(config).double().eval()
    for block in model.decoder.block:  # so that what is read decides what is written
        block.layer[1].EncDecAttention.o.weight.data *= 30
    return model


@pytest.fixture(params=["hdt_encoder_decoder_11", "hdt_encoder_decoder_12"])
def golden(request, tmp_path):
    return save_published(request.param, tmp_path)


def test_published_weights_give_published_outputs(golden, tmp_path):
    folder, tensors, inputs = golden
    model, info = AutoModelForSeq2SeqLM.from_pretrained(
        folder, dtype=torch.float64, output_loading_info=True
    )
    assert isinstance(model, HDTForConditionalGeneration)
    assert not any(info[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    with torch.no_grad():
        output = model.eval()(
            **inputs, decoder_input_ids=tensors["decoder_input_ids"], labels=tensors["labels"]
        )
    real = inputs["attention_mask"].bool()
    rows = output.encoder_last_hidden_state
    assert relative_error(rows[real], tensors["encoder_last_hidden_state"][real]) < 1e-6
    assert relative_error(output.logits, tensors["logits"]) < 1e-6
    assert relative_error(output.loss, tensors["loss"].squeeze()) < 1e-6

    model.save_pretrained(tmp_path / "again")
    saved = load_file(tmp_path / "again" / "model.safetensors")
    assert {f"weights.{name}" for name in saved} <= set(tensors)
    again = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "again", dtype=torch.float64).eval()
    with torch.no_grad():
        logits = again(**inputs, decoder_input_ids=tensors["decoder_input_ids"]).logits
    assert relative_error(logits, output.logits) < 1e-12


def test_the_cache_changes_no_score(model):
    written = torch.tensor([[0, 20, 21, 22, 23, 24]])
    with torch.no_grad():
        whole = model(IDS, parent_ids=PARENTS, decoder_input_ids=written, use_cache=False)
        assert whole.past_key_values is None
        memory = model.encode(IDS, parent_ids=PARENTS)
        cache = EncoderDecoderCache(DynamicCache(), DynamicCache())
        parts = [
            model(encoder_outputs=memory, decoder_input_ids=part, cache=cache).logits
            for part in written.split([1, 3, 1, 1], dim=1)
        ]
    assert relative_error(torch.cat(parts, dim=1), whole.logits) < 1e-12


def test_hidden_states_are_the_inputs_of_the_blocks(model):
    inputs = {"input_ids": IDS, "parent_ids": PARENTS}
    with torch.no_grad():
        output = model(**inputs, labels=LABELS, output_hidden_states=True)
        plain = model(**inputs, labels=LABELS)
    assert plain.encoder_hidden_states is plain.decoder_hidden_states is None
    assert torch.equal(plain.logits, output.logits)
    assert [s.shape for s in output.encoder_hidden_states] == [(1, 10, 16)] * 3
    assert [s.shape for s in output.decoder_hidden_states] == [(1, 4, 16)] * 3
    assert torch.equal(output.encoder_hidden_states[-1], output.encoder_last_hidden_state)
    logits = model.lm_head(output.decoder_hidden_states[-1] * 16**-0.5)
    assert relative_error(logits, output.logits) < 1e-12
    model.config.output_hidden_states = True
    with torch.no_grad():
        assert len(model(**inputs, labels=LABELS).encoder_hidden_states) == 3
    model.config.output_hidden_states = False
    written = model.generate(
        **inputs,
        output_hidden_states=True,
        return_dict_in_generate=True,
        num_beams=2,
        min_new_tokens=3,
        max_new_tokens=3,
    )
    assert len(written.encoder_hidden_states) == 3
    assert [len(states) for states in written.decoder_hidden_states] == [3] * 3


@pytest.mark.parametrize("how", [{}, {"num_beams": 3}, {"num_beams": 2, "use_cache": False}])
def test_generate_finds_what_scoring_from_scratch_finds(model, how):
    two = IDS.repeat(2, 1)
    two[1, 3:5] = torch.tensor([30, 31])
    parents = PARENTS.repeat(2, 1)
    both = model.generate(two, parent_ids=parents, min_new_tokens=6, max_new_tokens=6, **how)
    for row, written in zip(two, both, strict=True):
        alone = model.generate(
            row[None], parent_ids=PARENTS, min_new_tokens=6, max_new_tokens=6, **how
        )
        assert torch.equal(alone[0], written)
    assert not torch.equal(*both)
    if not how:
        with torch.no_grad():
            scores = model(two, parent_ids=parents, decoder_input_ids=both[:, :-1]).logits
        scores[..., model.config.eos_token_id] = -torch.inf
        assert torch.equal(scores.argmax(-1), both[:, 1:])


@with_both_positions
def test_packed_documents_and_rows_of_several_give_what_padded_ones_give(model):
    tree = Tree.from_parents(torch.cat([PARENTS[0], torch.tensor([-1, 10, 11, 12])]))
    ids = torch.cat([IDS[0], torch.tensor([1, 2, 3, 40])])
    labels = torch.tensor([[20, 21, 22, 1], [30, 31, 1, -100]])
    padded_ids = torch.zeros(2, 10, dtype=torch.long)
    padded_ids[0], padded_ids[1, :4] = IDS[0], ids[10:]
    parents = torch.full((2, 10), -1)
    parents[0], parents[1, :4] = PARENTS[0], torch.tensor([-1, 0, 1, 2])
    mask = torch.ones(2, 10, dtype=torch.long)
    mask[1, 4:] = 0
    with torch.no_grad():
        padded = model(padded_ids, mask, parents, labels=labels)
        forest = torch.cat([PARENTS[0], torch.tensor([-1, 10, 11, 12])])
        one_row = model(ids[None], parent_ids=forest[None], labels=labels)
        packed = model(tree.to_level_order(ids)[None], tree=tree.in_level_order, labels=labels)
    for other in (one_row, packed):
        assert relative_error(other.logits, padded.logits) < 1e-12
        assert relative_error(other.loss, padded.loss) < 1e-12
    in_order = tree.to_level_order(ids)[None]
    for how in ({"num_beams": 2}, {"use_cache": False}):
        how |= {"min_new_tokens": 4, "max_new_tokens": 4}
        written = model.generate(padded_ids, attention_mask=mask, parent_ids=parents, **how)
        assert written.shape == (2, 5)
        for other in (
            model.generate(ids[None], parent_ids=forest[None], **how),
            model.generate(in_order, tree=tree.in_level_order, **how),
            model.generate(encoder_outputs=model.encode(in_order, tree=tree.in_level_order), **how),
        ):
            assert torch.equal(other, written)


def test_what_the_decoder_reads(model):
    tree = Tree.from_parents(PARENTS[0]).in_level_order
    rows = torch.arange(10.0)[:, None]
    #                                      level order: doc sec sec sent sent sent …
    assert select_memory(rows, tree, "section")[0].flatten().tolist() == [1, 2]
    assert select_memory(rows, tree, "sentence")[0].flatten().tolist() == [1, 2, 3, 4, 5]
    assert select_memory(rows, tree, "token")[0].flatten().tolist() == list(range(10))
    with torch.no_grad():
        logits = [
            model(IDS, parent_ids=PARENTS, labels=LABELS, decode_anchors=read).logits
            for read in ("section", "sentence", "token")
        ]
        model.config.decode_anchors = "section"
        assert torch.equal(model(IDS, parent_ids=PARENTS, labels=LABELS).logits, logits[0])
    assert relative_error(logits[0], logits[1]) > 1e-4
    assert relative_error(logits[1], logits[2]) > 1e-4
    reads = [
        model.generate(IDS, parent_ids=PARENTS, decode_anchors=read, max_new_tokens=8).tolist()
        for read in ("section", "token")
    ]
    assert reads[0] != reads[1]


@pytest.mark.parametrize("read", ["section", "sentence", "token"])
def test_the_memory_is_selected_with_a_single_wait(read):
    tree = Tree.from_parents(PARENTS[0]).in_level_order
    _ = tree.level_sizes  # known since the tree was built
    with no_waiting(except_for=1):
        select_memory(torch.randn(10, 4), tree, read)


@given(forests(max_nodes=25))
def test_every_row_is_read_once_beside_its_own_document(parents):
    tree = Tree.from_parents(parents)
    rows = torch.arange(len(parents), dtype=torch.float64)[:, None]
    memory, mask = select_memory(tree.to_level_order(rows), tree.in_level_order, "token")
    assert memory.shape[:2] == mask.shape
    assert sorted(memory[mask].flatten().tolist()) == list(range(len(parents)))
    assert (memory[~mask] == 0).all()
    for document, real in zip(memory, mask, strict=True):
        roots = set()
        for node in document[real].flatten().long().tolist():
            while parents[node] >= 0:
                node = parents[node]
            roots.add(node)
        assert len(roots) == 1


def test_a_decoder_may_be_deeper_than_the_encoder(config):
    config.num_decoder_layers = 3
    model = HDTForConditionalGeneration(config).eval()
    written = model.generate(IDS, parent_ids=PARENTS, min_new_tokens=3, max_new_tokens=3)
    assert written.shape == (1, 4)


def test_labels_that_do_not_count(model):
    some = torch.tensor([[20, -100, 22, -100]])
    output = model(IDS, parent_ids=PARENTS, labels=some)
    expected = F.cross_entropy(output.logits[0, ::2].float(), some[0, ::2])
    assert relative_error(output.loss, expected) < 1e-6
    none = model(IDS, parent_ids=PARENTS, labels=torch.full_like(some, -100)).loss
    none.backward()
    assert none == 0
    assert all(p.grad.eq(0).all() for p in model.parameters() if p.grad is not None)


def test_padding_of_the_decoder_changes_nothing(model):
    written = torch.tensor([[0, 20, 21, 22]])
    left = torch.tensor([[7, 9, 0, 20, 21, 22]])
    mask = torch.tensor([[0, 0, 1, 1, 1, 1]])
    with torch.no_grad():
        expected = model(IDS, parent_ids=PARENTS, decoder_input_ids=written).logits
        logits = model(
            IDS, parent_ids=PARENTS, decoder_input_ids=left, decoder_attention_mask=mask
        ).logits
    assert relative_error(logits[:, 2:], expected) < 1e-12


@with_both_positions
def test_gradient_checkpointing_changes_no_gradient(model):
    model.train()
    gradients = []
    for checkpointed in (False, True):
        if checkpointed:
            # Newer versions of transformers renamed it.
            getattr(model, "activation_checkpointing_enable", model.gradient_checkpointing_enable)()
        model.zero_grad()
        model(IDS, parent_ids=PARENTS, labels=LABELS).loss.backward()
        assert {
            n for n, p in model.named_parameters() if p.requires_grad and p.grad is None
        } == set()
        gradients.append(
            torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])
        )
    assert relative_error(*gradients) < 1e-12


@with_both_positions
def test_it_saves_loads_and_starts_with_every_weight(config, tmp_path):
    model = HDTForConditionalGeneration(config).eval()
    model.save_pretrained(tmp_path)
    loaded = AutoConfig.from_pretrained(tmp_path)
    assert loaded.is_encoder_decoder
    assert not HDTConfig().is_encoder_decoder
    again = AutoModelForSeq2SeqLM.from_pretrained(tmp_path).eval()
    with torch.no_grad():
        logits = [m(IDS, parent_ids=PARENTS, labels=LABELS).logits for m in (model, again)]
    assert torch.equal(*logits)
    for module in model.modules():
        module._is_hf_initialized = False
    for parameter in model.parameters():
        parameter.data.fill_(float("nan"))
    model.initialize_weights()
    assert [name for name, p in model.named_parameters() if not p.isfinite().all()] == []


def test_collators_of_transformers_find_the_decoder_inputs(model, tokenizer):
    rows = [{"input_ids": [1, 2], "labels": [5, 6]}, {"input_ids": [1, 2], "labels": [5]}]
    batch = DataCollatorForSeq2Seq(tokenizer, model=model)(rows)
    assert batch["decoder_input_ids"].tolist() == [[0, 5], [0, 5]]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"input_ids": IDS, "labels": LABELS}, "parent_ids are missing"),
        ({"parent_ids": PARENTS, "labels": LABELS}, "HDT needs input_ids"),
        ({"input_ids": IDS, "parent_ids": PARENTS}, "needs decoder_input_ids or labels"),
        (
            {"input_ids": IDS, "parent_ids": PARENTS, "labels": LABELS.repeat(2, 1)},
            "numbers of targets and documents differ: 2 targets, 1 documents",
        ),
        (
            {"input_ids": IDS, "parent_ids": PARENTS, "labels": LABELS, "decode_anchors": "page"},
            "decode_anchors must be one of .*'page'",
        ),
        (
            {
                "input_ids": IDS[:, :2],
                "parent_ids": PARENTS[:, :2],
                "labels": LABELS,
                "decode_anchors": "section",
            },
            "document 0 of the batch has no section to decode from",
        ),
        (
            {
                "input_ids": IDS,
                "parent_ids": PARENTS,
                "decoder_input_ids": LABELS,
                "decoder_attention_mask": torch.ones(1, 3),
            },
            r"decoder_attention_mask must be \(1, 4\), .* got \(1, 3\)",
        ),
        *(
            (
                {"input_ids": IDS, "parent_ids": PARENTS, "labels": LABELS, name: value},
                f"HDT-ED does not support {name}: leave it out",
            )
            for name, value in {
                "output_attentions": True,
                "decoder_inputs_embeds": torch.zeros(1, 4, 16),
                "inputs_embeds": torch.zeros(1, 10, 16),
            }.items()
        ),
    ],
)
def test_bad_input_is_refused_in_one_sentence(model, arguments, message):
    with pytest.raises(ValueError, match=message):
        model(**arguments)


def test_generate_refuses_embeddings(model):
    with pytest.raises(ValueError, match="HDT-ED does not support inputs_embeds: leave it out"):
        model.generate(inputs_embeds=torch.zeros(1, 10, 16), parent_ids=PARENTS)
    with pytest.raises(ValueError, match="HDT-ED does not support assistant_model: leave it out"):
        model.generate(IDS, parent_ids=PARENTS, assistant_model=model)


def test_a_cache_that_cannot_grow_is_refused(model):
    with pytest.raises(ValueError, match="leave out cache_implementation"):
        model.generate(IDS, parent_ids=PARENTS, cache_implementation="static", max_new_tokens=3)


def test_a_configuration_reads_what_there_is():
    with pytest.raises(ValueError, match=r"decode_anchors must be one of .*'sections'"):
        HDTConfig(decode_anchors="sections")


def test_an_encoder_configuration_is_refused():
    with pytest.raises(ValueError, match="has no decoder: give it num_decoder_layers"):
        HDTForConditionalGeneration(HDTConfig(vocab_size=9, d_model=8))
