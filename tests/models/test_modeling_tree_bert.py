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
from foveate.models.tree_bert_network import Anchors
from foveate.ops.tree_attention import Tree
from foveate.preprocessing import TreeBertProcessor
from foveate.preprocessing.collate import pack_trees
from foveate.preprocessing.tree import NODE_TYPES, TreeNodes
from tests.numerics import relative_error
from tests.synchronization import no_waiting
from tests.tree_bert import SIZES, tree_bert

TOKEN, SENTENCE, PASSAGE = (NODE_TYPES[name] for name in ("token", "sentence", "passage"))
TOLERANCE = 1e-6  # sinusoids and places are computed in float32


def nodes_of(kinds, parents, tokens, passages):
    """Build a tree of passages."""
    nodes = TreeNodes.from_pieces(
        kinds,
        parents,
        tokens,
        passages,
        {"document": 1, "section": 2, "sentence": 3},
        passage_type=PASSAGE,
        closing_type=SENTENCE,
    )
    return {name: getattr(nodes, name) for name in ("input_ids", "parent_ids", "node_types")}


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
    return nodes_of(kinds, parents, tokens, passages)


def layer_norm(weights, name, x):
    return F.layer_norm(
        x, x.shape[-1:], weights[f"{name}.weight"], weights[f"{name}.bias"], eps=1e-12
    )


def linear(weights, name, x):
    return F.linear(x, weights[f"{name}.weight"], weights[f"{name}.bias"])


def reference(model, input_ids, parent_ids, node_types):
    """Embedding and salience of each anchor but passages, in reading order."""
    weights, heads = dict(model.named_parameters()), model.config.num_attention_heads
    size = model.config.hidden_size
    ids, parents, types = input_ids.tolist(), parent_ids.tolist(), node_types.tolist()
    nodes = range(len(ids))
    anchors = [i for i in nodes if types[i] != TOKEN]
    passage = [parents[i] if types[i] in (TOKEN, SENTENCE) else i for i in nodes]

    rows = []
    for i in nodes:
        below = [j for j in nodes if parents[j] == passage[i]]
        rows.append(
            weights["embeddings.word_embeddings.weight"][ids[i]]
            + weights["embeddings.token_type_embeddings.weight"][0]
            + weights["embeddings.position_embeddings.weight"][
                0 if passage[i] == i else 1 + below.index(i)
            ]
        )
    x = layer_norm(weights, "embeddings.LayerNorm", torch.stack(rows))

    allowed = torch.tensor([[passage[i] == passage[j] for j in nodes] for i in nodes])
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

    def below(i):
        """The anchors below i in reading order, and i."""
        return [i, *(k for j in anchors if parents[j] == i for k in below(j))]

    vectors = {}
    for i in anchors:
        if types[i] == SENTENCE:
            states = [x[parents[i]], x[i]]
            j = i - 1  # backwards to the end of the sentence before, or the passage's anchor
            while types[j] == TOKEN:
                states.append(x[j])
                j -= 1
            vectors[i] = F.normalize(sum(states) / len(states), dim=0)
    for i in anchors:
        if types[i] != SENTENCE:
            total = torch.zeros(size, dtype=x.dtype)
            for s in below(i):
                if types[s] == SENTENCE:
                    w = torch.sigmoid(weights["pooling.sentence"] @ x[s] + weights["pooling.bias"])
                    total = total + w * vectors[s]
            vectors[i] = F.normalize(total, dim=0)

    def section_of(i):
        above = i if parents[i] < 0 else parents[i]
        return parents[above] if types[i] == SENTENCE and parents[above] >= 0 else above

    def among_siblings(i):
        same = [i]
        if parents[i] >= 0:
            same = [j for j in anchors if parents[j] >= 0 and section_of(j) == section_of(i)]
            same = sorted((j for j in same if types[j] != PASSAGE), key=lambda j: types[j])
        index, number = same.index(i) if i in same else 0, len(same)
        return [index / max(1, number - 1), 1 / (1 + index), 1 / (number - index)]

    salience = {i: torch.zeros((), dtype=x.dtype) for i in anchors}
    for order, i in enumerate(anchors, start=1):
        if types[i] != SENTENCE:
            continue
        section, root = section_of(i), anchors[0]
        of_section, of_document = vectors[section], vectors[root]
        features = [
            x[i],
            *(math.sqrt(size) * y for y in (vectors[i], of_section, of_document)),
            torch.stack([vectors[i] @ of_section, vectors[i] @ of_document]),
            torch.tensor(
                [
                    *among_siblings(i),
                    *among_siblings(section),
                    order / len(anchors),
                    math.log(len(anchors)) / 5,
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
        salience[i] = linear(weights, "salience.output", inner)[0]
    shown = [i for i in anchors if types[i] != PASSAGE]
    return [torch.stack([values[i] for i in shown]) for values in (vectors, salience)]


def pad(documents, lefts):
    """Pad each document on the left or on the right, with numbers that nobody may read."""
    longest = max(len(document["input_ids"]) for document in documents)
    batch = {name: [] for name in ("input_ids", "parent_ids", "node_types", "attention_mask")}
    starts = []
    for document, is_left in zip(documents, lefts, strict=True):
        number = len(document["input_ids"])
        left = longest - number if is_left else 0
        right = longest - number - left
        starts.append(left)
        parents = document["parent_ids"]
        columns = {
            **document,
            "parent_ids": torch.where(parents < 0, -1, parents + left),
            "attention_mask": torch.ones_like(parents),
        }
        padding = {"input_ids": 7, "parent_ids": 3, "node_types": -1, "attention_mask": 0}
        for name, column in columns.items():
            batch[name].append(F.pad(column, (left, right), value=padding[name]))
    return {name: torch.stack(columns) for name, columns in batch.items()}, starts


def in_reading_order(output):
    order = output.anchor_indices.argsort()
    return output.embeddings[order], output.salience[order]


@pytest.fixture(scope="module")
def model():
    return tree_bert().double()


@given(st.lists(st.tuples(trees(), st.booleans()), min_size=1, max_size=3))
def test_the_model_is_the_dense_reference(model, drawn):
    documents, lefts = zip(*drawn, strict=True)
    batch, starts = pad(documents, lefts)
    with torch.no_grad():
        output = model(**batch)
        expected = [reference(model, **document) for document in documents]
    vectors, salience = (torch.cat(parts) for parts in zip(*expected, strict=True))
    assert relative_error(in_reading_order(output)[0], vectors) < TOLERANCE
    # Places are float32; what they add up to may cancel.
    difference = torch.linalg.vector_norm(in_reading_order(output)[1] - salience)
    assert difference < TOLERANCE * (1 + torch.linalg.vector_norm(salience))
    length = batch["input_ids"].shape[1]
    positions = [
        row * length + start + i
        for row, (start, document) in enumerate(zip(starts, documents, strict=True))
        for i, kind in enumerate(document["node_types"].tolist())
        if kind not in (TOKEN, PASSAGE)
    ]
    assert output.anchor_indices.sort().values.tolist() == positions


@given(st.lists(trees(), min_size=1, max_size=3))
@settings(max_examples=20)
def test_packed_documents_give_what_each_gives_alone(model, documents):
    lengths = torch.tensor([len(document["input_ids"]) for document in documents])
    positions = torch.arange(int(lengths.sum())).split(lengths.tolist())
    numbered = [{**d, "position": p} for d, p in zip(documents, positions, strict=True)]
    packed = pack_trees(numbered, ("input_ids", "node_types", "position"))
    position = packed.pop("position")[0]
    with torch.no_grad():
        alone = [in_reading_order(model(**{k: x[None] for k, x in d.items()})) for d in documents]
        together = model(**packed)
    order = position[together.anchor_indices].argsort()
    found = together.embeddings[order], together.salience[order]
    for one, expected in zip(found, zip(*alone, strict=True), strict=True):
        assert relative_error(one, torch.cat(expected)) < 1e-12


def gradients(model, loss):
    model.zero_grad()
    loss.backward()
    return {name: p.grad for name, p in model.named_parameters() if p.grad is not None}


def weighted_sum(vectors, salience):
    generator = torch.Generator().manual_seed(0)
    weights = torch.randn(vectors.shape, generator=generator, dtype=vectors.dtype)
    return (weights * vectors).sum() + (weights[:, 0] * salience).sum()


@given(trees())
@settings(max_examples=15)
def test_gradients_are_those_of_the_dense_reference(model, document):
    assume((document["node_types"] == SENTENCE).any())
    expected = gradients(model, weighted_sum(*reference(model, **document)))
    output = model(**{name: column[None] for name, column in document.items()})
    found = gradients(model, weighted_sum(*in_reading_order(output)))
    for name, gradient in expected.items():
        # Shifting all keys changes nothing, so the gradient of their bias is rounding alone.
        if not name.endswith("key.bias") and gradient.norm() > 1e-9:
            assert relative_error(found[name], gradient) < 1e-5, name
    assert all(found[name].norm() < 1e-9 for name in found.keys() - expected.keys())


@pytest.fixture
def example():
    kinds = ["document", "sentence", "section", "sentence", "sentence", "section"]
    tokens = [[], [7, 8], [], [9, 10, 11], [12], []]
    nodes = nodes_of(kinds, [-1, 0, 0, 2, 2, 0], tokens, [0, 1, 2, 3, 3, 5])
    return {name: column[None] for name, column in nodes.items()}


def test_gradient_checkpointing_changes_no_gradient(example):
    model = tree_bert(hidden_dropout_prob=0.0, salience_dropout=0.0).double().train()
    expected = gradients(model, weighted_sum(*in_reading_order(model(**example))))
    getattr(model, "activation_checkpointing_enable", model.gradient_checkpointing_enable)()
    calls = []
    model.encoder.layer[0].intermediate.register_forward_hook(lambda *_: calls.append(1))
    found = gradients(model, weighted_sum(*in_reading_order(model(**example))))
    assert len(calls) == 2  # once more in the backward pass
    for name, gradient in expected.items():
        assert torch.equal(found[name], gradient), name


def test_without_gradients_passages_are_read_some_at_a_time(model, example, monkeypatch):
    expected = model(**example)
    monkeypatch.setattr(tree_bert_network, "_TOKENS_IN_CACHE", 3)
    sizes = []
    hook = model.encoder.layer[0].intermediate.register_forward_hook(
        lambda module, inputs, output: sizes.append(len(output))
    )
    with torch.no_grad():
        output = model(**example)
    hook.remove()
    assert len(sizes) == 2  # the title, and the passage of two sentences
    assert relative_error(output.embeddings, expected.embeddings) < 1e-12
    assert relative_error(output.salience, expected.salience) < 1e-12


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_weights_of_any_precision(dtype, model, example):
    expected = model(**example)
    with torch.no_grad():
        output = tree_bert().to(dtype)(**example)
    assert output.embeddings.dtype == output.salience.dtype == torch.float32
    bound = {torch.bfloat16: 5e-2, torch.float16: 5e-3, torch.float32: 1e-5}[dtype]
    assert relative_error(output.embeddings, expected.embeddings) < bound


def test_only_sentences_are_salient_and_only_empty_sections_have_no_vector(model, example):
    output = model(**example)
    kinds = example["node_types"].flatten()[output.anchor_indices]
    assert ((output.salience != 0) == (kinds == SENTENCE)).all()
    is_empty = output.anchor_indices == example["input_ids"].shape[1] - 1  # the last section
    assert relative_error(output.embeddings.norm(dim=1), 1.0 - is_empty.double()) < 1e-12
    as_tuple = model(**example, return_dict=False)
    assert torch.equal(as_tuple[1], output.embeddings)


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
    vectors = in_reading_order(model(**example))[0]
    document, title, section, first, second, empty = vectors
    assert relative_error(document, F.normalize(title + first + second, dim=0)) < 1e-5
    assert relative_error(section, F.normalize(first + second, dim=0)) < 1e-5
    assert (empty == 0).all()


def test_a_checkpoint_of_another_type_is_refused(tmp_path):
    RobertaConfig().save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="roberta"):
        TreeBertModel.from_pretrained(tmp_path)


def test_missing_inputs_are_named(model, example):
    ids, parents, types = (example[x] for x in ("input_ids", "parent_ids", "node_types"))
    with pytest.raises(ValueError, match="node_types are missing: prepare documents with"):
        model(ids, parent_ids=parents)
    with pytest.raises(ValueError, match="parent_ids are missing: prepare documents with"):
        model(ids, node_types=types)
    embeddings = model.get_input_embeddings()(ids)
    for ids_or_none in ({}, {"input_ids": ids}):
        with pytest.raises(ValueError, match="needs input_ids, and does not support inputs_embeds"):
            model(**ids_or_none, inputs_embeds=embeddings, parent_ids=parents, node_types=types)
    cycle = parents.clone()
    cycle[0, 0] = 1
    with pytest.raises(ValueError, match="its own ancestor"):
        model(ids, parent_ids=cycle, node_types=types)
    tree = Tree.from_parents(parents[0])
    with pytest.raises(ValueError, match="must be in level order"):
        model(ids, node_types=types, tree=tree)
    with pytest.raises(ValueError, match="11 nodes are misplaced: tokens and sentences belong"):
        model(ids, parent_ids=parents, node_types=torch.zeros_like(types))


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


@pytest.mark.parametrize(
    "types",
    [
        [3, 2, 0, 1],  # a token in a section
        [3, 4, 1, 1],  # a sentence in a sentence
        [3, 4, 4, 1],  # a passage in a passage
        [3, 4, 2, 1],  # a section in a passage
        [0, 3, 4, 1],  # a document below a token
    ],
)
def test_misplaced_nodes_are_refused(types, model):
    document = {
        "input_ids": torch.tensor([[1, 2, 3, 4]]),
        "parent_ids": torch.tensor([[-1, 0, 1, 2]]),
        "node_types": torch.tensor([types]),
    }
    with pytest.raises(ValueError, match="nodes are misplaced: tokens and sentences belong"):
        model(**document)


def test_a_passage_that_ends_within_a_sentence_is_refused(model):
    document = {
        "input_ids": torch.tensor([[1, 2, 3, 4, 5]]),
        "parent_ids": torch.tensor([[-1, 0, 1, 1, 1]]),
        "node_types": torch.tensor([[3, 4, 0, 1, 0]]),
    }
    with pytest.raises(ValueError, match="1 passages do not end with the last token of a sentence"):
        model(**document)


def test_the_device_is_asked_once_for_its_anchors():
    parents = [-1, 0, 1, 2, 2, 1, 5, 0, 7, 8, 8]
    types = [3, 2, 4, 0, 1, 4, 1, 2, 4, 1, 1]
    tree = Tree.from_parents(torch.tensor(parents))
    assert tree.level_sizes
    node_types = tree.to_level_order(torch.tensor(types))
    with no_waiting(except_for=1):
        anchors = Anchors.from_tree(tree.in_level_order, node_types)
        sums = anchors.sum_below(torch.ones_like(anchors.parent))
        depth = anchors.sum_above(torch.ones_like(anchors.parent))
        root, section, shown = anchors.root, anchors.section, anchors.without_passages
    assert sums.tolist() == [10, 5, 4, 2, 2, 3, 1, 1, 1, 1]
    assert depth.tolist() == [1, 2, 2, 3, 3, 3, 4, 4, 4, 4]
    assert root.tolist() == [0] * 10
    assert section.tolist() == [0, 0, 0, 1, 1, 2, 1, 1, 2, 2]
    assert shown.tolist() == [0, 1, 2, 6, 7, 8, 9]
