"""Passages as BERT was trained to read texts: [CLS], and [SEP] at the end of each sentence."""

import json
from itertools import chain, compress
from unittest import mock

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, models
from transformers import AutoProcessor, PreTrainedTokenizerFast

from foveate import Document
from foveate.models.tree_bert import TreeBertConfig
from foveate.preprocessing import TreeBertProcessor, load_processor, processor_for
from foveate.preprocessing.tree import NODE_TYPES, Anchor, join_into_passages, outline

CLS, SEP = 101, 102
DEEP = Document.from_sections(
    "Fish",
    [
        ("Cod", ["Cod swim.", "They eat."], [("Young cod", ["Small."], [("Eggs", ["Round."])])]),
        ("Eel", ["Eels are long."]),
    ],
)


@pytest.fixture(scope="module")
def processor(tokenizer):
    return TreeBertProcessor(tokenizer)


def depths(parent_ids):
    found = []
    for parent in parent_ids.tolist():
        found.append(0 if parent < 0 else found[parent] + 1)
    return found


def passages_of(features):
    """The ids of each passage, its anchor first."""
    ids, parents = features["input_ids"].tolist(), features["parent_ids"].tolist()
    types = features["node_types"].tolist()
    found = {i: [ids[i]] for i, kind in enumerate(types) if kind == NODE_TYPES["passage"]}
    for i, parent in enumerate(parents):
        if parent in found:
            found[parent].append(ids[i])
    return list(found.values())


def test_every_passage_of_one_sentence_is_read_as_bert_reads_it(tokenizer):
    texts = ["Cod swim.", "They eat.", "Eels, too"]
    document = Document.from_sections("", [("", [text]) for text in texts])
    features = TreeBertProcessor(tokenizer).features(document)
    assert passages_of(features) == tokenizer(texts)["input_ids"]


def test_trees_have_a_level_for_every_level_of_nesting(processor, tokenizer):
    features = processor.features(DEEP)
    types = features["node_types"]
    anchors = (types != NODE_TYPES["token"]) & (types != NODE_TYPES["sentence"])
    assert (features["input_ids"][anchors] == CLS).all()
    depth = list(compress(depths(features["parent_ids"]), anchors.tolist()))
    assert depth == [0, 1, 1, 2, 2, 3, 3, 4, 1, 2]
    flat = TreeBertProcessor(tokenizer, levels=3).features(DEEP)
    assert max(depths(flat["parent_ids"])) == 3
    assert len(passages_of(flat)) == len(passages_of(features)) - 1  # the title is in a section


def test_a_forest_is_its_trees_one_after_the_other(processor):
    outlines = [outline(document) for document in (DEEP, Document.from_text("Cod swim."), DEEP)]
    forest, owners = processor.tree(*outlines)
    nodes = anchors = 0
    for own in outlines:
        tree, _ = processor.tree(own)
        size = len(tree.input_ids)
        here = slice(nodes, nodes + size)
        for name in ("input_ids", "node_types", "positions"):
            assert torch.equal(getattr(forest, name)[here], getattr(tree, name))
        is_root = tree.parent_ids < 0
        shifted = torch.where(is_root, -1, tree.parent_ids + nodes)
        assert torch.equal(forest.parent_ids[here], shifted)
        assert torch.equal(forest.piece_idx[here], tree.piece_idx + anchors)
        nodes, anchors = nodes + size, anchors + len(own)
    assert len(forest.input_ids) == nodes
    assert owners == list(range(anchors))


@given(st.data())
def test_passages_are_as_long_as_they_may_be(data):
    """Each begins a section, or where a sentence does not fit, or after a nearly full paragraph."""
    limit = data.draw(st.integers(1, 30), "passage_tokens")
    anchors = [Anchor("document", -1)]
    for _ in range(data.draw(st.integers(0, 4), "sections")):
        section = len(anchors)
        anchors.append(Anchor("section", 0))
        starts = data.draw(st.lists(st.booleans(), max_size=8), "paragraphs start")
        anchors += [Anchor("sentence", section, "x", 0, starts_here) for starts_here in starts]
    sizes = [
        data.draw(st.integers(1, limit)) if anchor.kind == "sentence" else 0 for anchor in anchors
    ]
    passages = join_into_passages(range(len(anchors)), sizes, anchors, limit)
    for i, (first, anchor) in enumerate(zip(passages, anchors, strict=True)):
        length = sum(sizes[first : i + 1])
        assert anchors[first].parent == anchor.parent
        assert all(x == first for x in passages[first : i + 1])
        assert length <= limit
        if first == i and i and anchors[i - 1].kind == anchor.kind == "sentence":
            before = sum(sizes[passages[i - 1] : i])
            ends_a_paragraph = anchor.starts_paragraph and before >= 0.75 * limit
            assert before + sizes[i] > limit or ends_a_paragraph
    assert join_into_passages(range(len(anchors)), sizes, anchors, None) == [*range(len(anchors))]


def test_sentences_of_a_passage_share_an_anchor_and_end_with_sep(tokenizer):
    processor = TreeBertProcessor(tokenizer)
    features = processor.features(DEEP)
    types, parents = (features[name].tolist() for name in ("node_types", "parent_ids"))
    below = {i: [] for i, kind in enumerate(types) if kind == NODE_TYPES["passage"]}
    for i, parent in enumerate(parents):
        if parent in below:
            below[parent].append(i)
    texts = [tokenizer.decode(features["input_ids"][ids]) for ids in below.values()]
    assert texts == [
        "fish [SEP]",
        "cod [SEP] cod swim. [SEP] they eat. [SEP]",
        "young cod [SEP] small. [SEP]",
        "eggs [SEP] round. [SEP]",
        "eel [SEP] eels are long. [SEP]",
    ]
    ends = [i for i, kind in enumerate(types) if kind == NODE_TYPES["sentence"]]
    assert (features["input_ids"][ends] == SEP).all()
    assert (features["input_ids"] == SEP).sum() == len(ends)


def test_a_speaker_is_named_where_a_turn_begins(tokenizer):
    turns = [("Ann", "Cod swim."), ("Ann", "They eat."), ("Ben", "Eels, too.")]
    text = json.dumps({"turns": [{"speaker": who, "text": text} for who, text in turns]})
    features = TreeBertProcessor(tokenizer).features(Document.from_text(text, format="json"))
    texts = [tokenizer.decode(ids) for ids in passages_of(features)]
    assert texts == ["[CLS] ann : cod swim. [SEP] they eat. [SEP] ben : eels, too. [SEP]"]


@given(
    st.lists(st.text("abc .", max_size=30), min_size=1, max_size=4),
    st.integers(1, 6),
)
def test_long_texts_are_split_and_every_piece_is_closed(processor, tokenizer, texts, longest):
    with mock.patch.object(processor, "max_sentence_tokens", longest):
        owners, pieces = processor.pieces(texts)
    assert owners == sorted(owners)
    assert all(piece[-1] == SEP and len(piece) <= longest + 1 for piece in pieces)
    for i, text in enumerate(texts):
        own = [piece[:-1] for piece, owner in zip(pieces, owners, strict=True) if owner == i]
        assert own
        assert list(chain(*own)) == tokenizer(text, add_special_tokens=False)["input_ids"]


def test_empty_texts_are_closed_and_anchors_of_sections_have_no_tokens(processor):
    assert processor.pieces(["", "cod"]) == ([0, 1], [[SEP], [19429, SEP]])
    document = Document.from_sections("", [("", ["Cod."])])
    features = processor.features(document)
    assert features["node_types"].tolist() == [3, 2, 4, 0, 0, 1]
    assert features["parent_ids"].tolist() == [-1, 0, 1, 2, 2, 2]


def test_batches_have_the_kinds_of_nodes(processor):
    short = Document.from_sections("", [("", ["Cod."])])
    batch = processor([short, DEEP])
    assert set(batch) == {"input_ids", "attention_mask", "parent_ids", "node_types"}
    assert (batch["node_types"][0, 6:] == -1).all()
    assert (batch["attention_mask"][0] == 0).tolist() == (batch["node_types"][0] == -1).tolist()


def test_truncation_ends_a_passage_with_sep(tokenizer):
    processor = TreeBertProcessor(tokenizer)
    for longest in range(4, 40):
        processor.max_length = longest
        features = processor.document_features(DEEP)
        assert len(features["node_types"]) <= longest
        assert features["node_types"][-1] == NODE_TYPES["sentence"]
        assert features["input_ids"][-1] == SEP


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"passage_tokens": 100}, "passages of 100 tokens are shorter than a sentence may be"),
        ({"passage_tokens": 254}, "passages of 254 tokens are shorter than a sentence may be"),
        ({"passage_tokens": 512}, "512 tokens and their anchor are longer than the 512 tokens"),
        ({"passage_tokens": 0}, "passage_tokens must be at least 1 or None, got 0"),
        ({"passage_tokens": 256, "max_sentence_tokens": None}, "shorter than a sentence may be"),
        ({"passage_tokens": None}, "TreeBert reads passages: set passage_tokens"),
    ],
)
def test_passages_that_cannot_be_are_refused(options, message, tokenizer):
    with pytest.raises(ValueError, match=message):
        TreeBertProcessor(tokenizer, **options)


def test_the_processor_is_saved_with_its_options(tokenizer, tmp_path):
    processor = TreeBertProcessor(tokenizer, levels=4, max_sentence_tokens=9, passage_tokens=99)
    processor.save_pretrained(tmp_path)
    again = AutoProcessor.from_pretrained(tmp_path)
    loaded = load_processor(tmp_path, TreeBertConfig())
    assert type(again) is type(loaded) is type(processor_for(TreeBertConfig(), tokenizer))
    assert loaded.to_dict() == again.to_dict()
    assert (again.levels, again.max_sentence_tokens, again.passage_tokens) == (4, 9, 99)
    assert torch.equal(again.features(DEEP)["input_ids"], processor.features(DEEP)["input_ids"])


def test_tokenizers_that_do_not_enclose_sentences_are_refused():
    bare = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(models.WordLevel({"a": 0, "[CLS]": 1, "[UNK]": 2}, "[UNK]")),
        unk_token="[UNK]",
    )
    with pytest.raises(ValueError, match="the tokenizer names no CLS token"):
        TreeBertProcessor(bare)
    bare.cls_token = "[CLS]"
    with pytest.raises(ValueError, match="does not put exactly one token"):
        TreeBertProcessor(bare)
