"""TreeBert against a dense reference, one document at a time, in float64."""

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from transformers import (
    AutoConfig,
    AutoModel,
    AutoProcessor,
    BertForMaskedLM,
    BertModel,
    RobertaConfig,
)

from foveate import Document
from foveate.models import tree_bert_network
from foveate.models.tree_bert import TreeBertConfig, TreeBertModel
from foveate.preprocessing import TreeBertProcessor
from foveate.preprocessing.collate import pack_passages
from foveate.preprocessing.tree import NODE_TYPES, passage_columns
from tests.numerics import relative_error
from tests.tree_bert import SIZES, tree_bert

SENTENCE = NODE_TYPES["sentence"]
TOLERANCE = 1e-6  # sinusoids and places are computed in float32
CLS = 1


@st.composite
def trees(draw, max_depth=4):
    """A document of any shape, or a sentence alone."""
    kinds, parents, tokens, passages = [], [], [], []

    def add(kind, parent, is_joined=False):
        passages.append(passages[-1] if is_joined else len(kinds))
        kinds.append(kind)
        parents.append(parent)
        least, longest = (1, 4) if kind == "sentence" else (0, 0)
        tokens.append(draw(st.lists(st.integers(4, 59), min_size=least, max_size=longest)))
        return len(kinds) - 1

    def add_below(parent, depth):
        before = None
        for kind in draw(st.lists(st.sampled_from(["sentence", "section"]), max_size=5)):
            can_join = kind == before == "sentence"
            anchor = add(kind, parent, can_join and draw(st.booleans()))
            if kind == "section" and depth < max_depth:
                add_below(anchor, depth + 1)
            before = kind

    if draw(st.integers(0, 4)) == 0:
        add("sentence", -1)
    else:
        add_below(add("document", -1), 1)
    return passage_columns(kinds, parents, tokens, passages, CLS)


def layer_norm(weights, name, x):
    return F.layer_norm(
        x, x.shape[-1:], weights[f"{name}.weight"], weights[f"{name}.bias"], eps=1e-12
    )


def linear(weights, name, x):
    return F.linear(x, weights[f"{name}.weight"], weights[f"{name}.bias"])


def reference(model, input_ids, position_ids, anchor_ids, anchor_parents, anchor_kinds):
    """Vector and salience of each anchor, and the vector of each token but [CLS]."""
    weights, heads = dict(model.named_parameters()), model.config.num_attention_heads
    size = model.config.hidden_size
    ids, positions, owners = input_ids.tolist(), position_ids.tolist(), anchor_ids.tolist()
    parents, kinds = anchor_parents.tolist(), anchor_kinds.tolist()
    tokens, anchors = range(len(ids)), range(len(parents))
    first = [i - position for i, position in enumerate(positions)]  # of each one's passage

    x = (
        weights["embeddings.word_embeddings.weight"][ids]
        + weights["embeddings.token_type_embeddings.weight"][0]
        + weights["embeddings.position_embeddings.weight"][positions]
    )
    x = layer_norm(weights, "embeddings.LayerNorm", x)
    passage = torch.tensor(first)
    allowed = passage[:, None] == passage
    for layer in range(model.config.num_hidden_layers):
        name = f"encoder.layer.{layer}"
        qkv = linear(weights, f"{name}.attention.self.qkv", x)
        q, k, v = qkv.unflatten(1, (3, heads, -1)).unbind(1)
        scores = torch.einsum("ihd,jhd->hij", q, k) / math.sqrt(size // heads)
        attention = scores.masked_fill(~allowed, -math.inf).softmax(-1)
        mixed = torch.einsum("hij,jhd->ihd", attention, v).flatten(1)
        x = layer_norm(
            weights,
            f"{name}.attention.output.LayerNorm",
            x + linear(weights, f"{name}.attention.output.dense", mixed),
        )
        inner = F.gelu(linear(weights, f"{name}.intermediate.dense", x))
        x = layer_norm(
            weights, f"{name}.output.LayerNorm", x + linear(weights, f"{name}.output.dense", inner)
        )

    def below(a):
        """The anchors below a in reading order, and a."""
        return [a, *(c for b in anchors if parents[b] == a for c in below(b))]

    own = {a: [i for i in tokens if owners[i] == a] for a in anchors}
    vectors = {}
    for a in anchors:
        if kinds[a] == SENTENCE:
            states = [x[first[own[a][0]]], *x[own[a]]]
            vectors[a] = F.normalize(sum(states) / len(states), dim=0)
    for a in anchors:
        if kinds[a] != SENTENCE:
            total = torch.zeros(size, dtype=x.dtype)
            for s in below(a):
                if kinds[s] == SENTENCE:
                    end = x[own[s][-1]]
                    w = torch.sigmoid(weights["pooling.sentence"] @ end + weights["pooling.bias"])
                    total = total + w * vectors[s]
            vectors[a] = F.normalize(total, dim=0)

    def among_siblings(a):
        same = [b for b in anchors if parents[b] == parents[a]] if parents[a] >= 0 else [a]
        same.sort(key=lambda b: kinds[b])
        index, number = same.index(a), len(same)
        return [index / max(1, number - 1), 1 / (1 + index), 1 / (number - index)]

    # In reading order, a passage is a node before its first sentence.
    order, nodes = {}, 0
    for a in anchors:
        nodes += 1 + (own[a] != [] and positions[own[a][0]] == 1)
        order[a] = nodes
    salience = {a: torch.zeros((), dtype=x.dtype) for a in anchors}
    for a in anchors:
        if kinds[a] != SENTENCE:
            continue
        section = max(parents[a], 0)
        features = [
            x[own[a][-1]],
            *(math.sqrt(size) * vectors[b] for b in (a, section, 0)),
            torch.stack([vectors[a] @ vectors[section], vectors[a] @ vectors[0]]),
            torch.tensor(
                [
                    *among_siblings(a),
                    *among_siblings(section),
                    order[a] / nodes,
                    math.log(nodes) / 5,
                ]
            ),
        ]
        normed = F.layer_norm(
            torch.cat(features),
            (4 * size + 10,),
            weights["salience.norm.weight"],
            weights["salience.norm.bias"],
        )
        inner = F.gelu(linear(weights, "salience.dense", normed))
        salience[a] = linear(weights, "salience.output", inner)[0]
    of_tokens = F.normalize(x[position_ids > 0] @ weights["token_head.weight"].T, dim=-1)
    return *(torch.stack([values[a] for a in anchors]) for values in (vectors, salience)), of_tokens


def pad(documents, lefts):
    """Pad each document on the left or on the right, with numbers that nobody may read."""
    batch = {}
    for name in ("attention_mask", *documents[0]):
        is_of_tokens = not name.startswith("anchor_") or name == "anchor_ids"
        padding = {"attention_mask": 0, "anchor_parents": 3, "anchor_kinds": -1}.get(name, 7)
        columns = [d.get(name, torch.ones_like(d["input_ids"])) for d in documents]
        longest = max(map(len, columns))
        batch[name] = torch.stack(
            [
                F.pad(x, (missing, 0) if is_left and is_of_tokens else (0, missing), value=padding)
                for x, is_left in zip(columns, lefts, strict=True)
                for missing in [longest - len(x)]
            ]
        )
    return batch


@pytest.fixture(scope="module")
def model():
    return tree_bert(token_size=6).double()


@given(st.lists(st.tuples(trees(), st.booleans()), min_size=1, max_size=3), st.integers(1, 20))
def test_the_model_is_the_dense_reference(model, drawn, batch_tokens):
    documents, lefts = zip(*drawn, strict=True)
    assume(any(len(document["input_ids"]) for document in documents))
    with torch.no_grad(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(tree_bert_network, "_BATCH_TOKENS_ON_CPU", batch_tokens)
        output = model(**pad(documents, lefts))
        expected = [reference(model, **document) for document in documents]
    vectors, salience, tokens = (torch.cat(parts) for parts in zip(*expected, strict=True))
    assert relative_error(output.embeddings, vectors) < TOLERANCE
    assert output.token_vectors.shape == tokens.shape
    assert relative_error(output.token_vectors, tokens) < TOLERANCE
    # Places are float32; what they add up to may cancel.
    difference = torch.linalg.vector_norm(output.salience - salience)
    assert difference < TOLERANCE * (1 + torch.linalg.vector_norm(salience))


@given(st.lists(trees(), min_size=1, max_size=3))
@settings(max_examples=20)
def test_packed_documents_give_what_each_gives_alone(model, documents):
    assume(all(len(document["input_ids"]) for document in documents))
    with torch.no_grad():
        alone = [model(**pack_passages([document])) for document in documents]
        together = model(**pack_passages(documents))
    for name, found in together.items():
        assert relative_error(found, torch.cat([one[name] for one in alone])) < 1e-12, name


def gradients(model, loss):
    model.zero_grad()
    loss.backward()
    return {name: p.grad for name, p in model.named_parameters() if p.grad is not None}


def weighted_sum(vectors, salience, tokens):
    generator = torch.Generator().manual_seed(0)
    weights = torch.randn(vectors.shape, generator=generator, dtype=vectors.dtype)
    of_tokens = torch.randn(tokens.shape, generator=generator, dtype=tokens.dtype)
    return (weights * vectors).sum() + (weights[:, 0] * salience).sum() + (of_tokens * tokens).sum()


@given(trees())
@settings(max_examples=15)
def test_gradients_are_those_of_the_dense_reference(model, document):
    assume((document["anchor_kinds"] == SENTENCE).any())
    expected = gradients(model, weighted_sum(*reference(model, **document)))
    found = gradients(model, weighted_sum(*model(**pack_passages([document])).to_tuple()))
    for name, gradient in expected.items():
        # Shifting all keys changes nothing, so the gradient of their bias is rounding alone.
        if not name.endswith("key.bias") and gradient.norm() > 1e-9:
            assert relative_error(found[name], gradient) < 1e-5, name
    assert all(found[name].norm() < 1e-9 for name in found.keys() - expected.keys())


@pytest.fixture
def example():
    kinds = ["document", "sentence", "section", "sentence", "sentence", "section"]
    tokens = [[], [7, 8], [], [9, 10, 11], [12], []]
    columns = passage_columns(kinds, [-1, 0, 0, 2, 2, 0], tokens, [0, 1, 2, 3, 3, 5], CLS)
    return pack_passages([columns])


def test_gradient_checkpointing_changes_no_gradient(example):
    options = {"hidden_dropout_prob": 0.0, "salience_dropout": 0.0, "token_size": 6}
    model = tree_bert(**options).double().train()
    expected = gradients(model, weighted_sum(*model(**example).to_tuple()))
    getattr(model, "activation_checkpointing_enable", model.gradient_checkpointing_enable)()
    calls = []
    model.encoder.layer[0].intermediate.register_forward_hook(lambda *_: calls.append(1))
    found = gradients(model, weighted_sum(*model(**example).to_tuple()))
    assert len(calls) == 2  # once more in the backward pass
    for name, gradient in expected.items():
        assert torch.equal(found[name], gradient), name


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_weights_of_any_precision(dtype, model, example):
    expected = model(**example)
    with torch.no_grad():
        output = tree_bert(token_size=6).to(dtype)(**example)
    assert output.embeddings.dtype == output.salience.dtype == torch.float32
    bound = {torch.bfloat16: 5e-2, torch.float16: 5e-3, torch.float32: 1e-5}[dtype]
    assert relative_error(output.embeddings, expected.embeddings) < bound


def test_only_sentences_are_salient_and_only_empty_sections_have_no_vector(model, example):
    output = model(**example)
    kinds = example["anchor_kinds"][0]
    assert ((output.salience != 0) == (kinds == SENTENCE)).all()
    is_empty = torch.arange(len(kinds)) == len(kinds) - 1  # the last section
    assert relative_error(output.embeddings.norm(dim=1), 1.0 - is_empty.double()) < 1e-12
    as_tuple = model(**example, return_dict=False)
    assert torch.equal(as_tuple[0], output.embeddings)


def test_a_checkpoint_is_saved_and_loaded_by_the_auto_classes(tmp_path, tokenizer):
    document = Document.from_sections("Fish", [("Cod", ["Cod swim.", "They eat."])])
    model = tree_bert(vocab_size=len(tokenizer))
    model.save_pretrained(tmp_path)
    TreeBertProcessor(tokenizer).save_pretrained(tmp_path)
    loaded, processor = (x.from_pretrained(tmp_path) for x in (AutoModel, AutoProcessor))
    config = AutoConfig.from_pretrained(tmp_path)
    assert [type(x) for x in (loaded, processor, config)] == [
        TreeBertModel,
        TreeBertProcessor,
        TreeBertConfig,
    ]
    assert (config.salience_size, config.model_type) == (8, "tree_bert")
    weights, loaded_weights = model.state_dict(), loaded.state_dict()
    assert weights.keys() == loaded_weights.keys()
    assert all(torch.equal(loaded_weights[name], weights[name]) for name in weights)
    expected, found = model(**processor(document)), loaded(**processor(document))
    # Not bit for bit: on some processors products depend on where weights lie in memory.
    assert relative_error(found.embeddings, expected.embeddings) < TOLERANCE
    assert relative_error(found.salience, expected.salience) < TOLERANCE


@pytest.mark.parametrize("kind", [BertModel, BertForMaskedLM])
def test_berts_weights_load_and_nothing_is_added_to_them(kind, tmp_path, example):
    torch.manual_seed(1)
    sizes = {name: size for name, size in SIZES.items() if name != "salience_size"}
    bert = kind(kind.config_class(vocab_size=60, **sizes)).eval()
    bert.save_pretrained(tmp_path)
    model, info = TreeBertModel.from_pretrained(tmp_path, output_loading_info=True)
    own = dict(model.named_parameters())
    heads = ("pooling.", "salience.")
    assert set(info["missing_keys"]) == {name for name in own if name.startswith(heads)}
    stock = dict(getattr(bert, "bert", bert).named_parameters())
    for kind in ("weight", "bias"):
        for layer in range(2):
            name = f"encoder.layer.{layer}.attention.self"
            stock[f"{name}.qkv.{kind}"] = torch.cat(
                [stock[f"{name}.{part}.{kind}"] for part in ("query", "key", "value")]
            )
    assert len(own.keys() & stock.keys()) == len(own) - len(info["missing_keys"])
    for name in own.keys() & stock.keys():
        assert torch.equal(own[name], stock[name]), name
    for name in own:
        if name.startswith("pooling."):
            assert (own[name] == 0).all(), name
    # Without weights in the pooling, sections and the document are means of their sentences.
    vectors = model(**example).embeddings
    document, title, section, first, second, empty = vectors
    assert relative_error(document, F.normalize(title + first + second, dim=0)) < 1e-5
    assert relative_error(section, F.normalize(first + second, dim=0)) < 1e-5
    assert (empty == 0).all()


def test_a_checkpoint_of_another_type_is_refused(tmp_path):
    RobertaConfig().save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="roberta"):
        TreeBertModel.from_pretrained(tmp_path)


@pytest.mark.parametrize("name", ["position_ids", "anchor_ids", "anchor_parents", "anchor_kinds"])
def test_missing_inputs_are_named(name, model, example):
    del example[name]
    with pytest.raises(ValueError, match=f"{name}.* missing: prepare documents with a TreeBertPro"):
        model(**example)


def test_inputs_of_other_kinds_are_refused(model, example):
    embeddings = model.get_input_embeddings()(example["input_ids"])
    with pytest.raises(ValueError, match="needs input_ids, and does not support inputs_embeds"):
        model(**example, inputs_embeds=embeddings)
    example["anchor_parents"][0, 0] = 1
    with pytest.raises(ValueError, match="anchor_parents must precede their children"):
        model(**example)


@pytest.mark.parametrize("name", ["output_hidden_states", "output_attentions"])
def test_what_is_not_returned_is_said(name, model, example):
    with pytest.warns(UserWarning, match=f"TreeBert ignores {name}"):
        model(**example, **{name: True})


def test_the_vocabulary_can_grow(example):
    model = tree_bert()
    expected = model(**example).embeddings
    model.resize_token_embeddings(64)
    assert model.config.vocab_size == 64
    assert torch.equal(model(**example).embeddings, expected)
