"""Trees as BERT was trained to read sentences: an anchor for [CLS], and [SEP] at the end."""

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
from foveate.preprocessing.tree import NODE_TYPES, outline

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


def sentences_of(features):
    """The ids of each sentence, its anchor first."""
    ids, parents = features["input_ids"].tolist(), features["parent_ids"].tolist()
    types = features["node_types"].tolist()
    found = {i: [ids[i]] for i, kind in enumerate(types) if kind == NODE_TYPES["sentence"]}
    for i, parent in enumerate(parents):
        if types[i] == NODE_TYPES["token"]:
            found[parent].append(ids[i])
    return list(found.values())


def test_every_sentence_is_read_as_bert_reads_it(processor, tokenizer):
    features = processor.features(DEEP)
    texts = [anchor.text for anchor in outline(DEEP) if anchor.text]
    assert sentences_of(features) == tokenizer(texts)["input_ids"]


def test_trees_have_a_level_for_every_level_of_nesting(processor, tokenizer):
    features = processor.features(DEEP)
    anchors = features["node_types"] != NODE_TYPES["token"]
    assert (features["input_ids"][anchors] == CLS).all()
    depth = list(compress(depths(features["parent_ids"]), anchors.tolist()))
    assert depth == [0, 1, 1, 2, 2, 2, 2, 3, 3, 3, 4, 4, 1, 2, 2]
    flat = TreeBertProcessor(tokenizer, levels=3).features(DEEP)
    assert max(depths(flat["parent_ids"])) == 3
    assert len(sentences_of(flat)) == len(sentences_of(features))


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
        assert torch.equal(forest.anchor_idx[here], tree.anchor_idx + anchors)
        nodes, anchors = nodes + size, anchors + len(own)
    assert len(forest.input_ids) == nodes
    assert owners == list(range(anchors))


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
    assert features["node_types"].tolist() == [3, 2, 1, 0, 0, 0]
    assert features["parent_ids"].tolist() == [-1, 0, 1, 2, 2, 2]


def test_batches_have_the_kinds_of_nodes(processor):
    short = Document.from_sections("", [("", ["Cod."])])
    batch = processor([short, DEEP])
    assert set(batch) == {"input_ids", "attention_mask", "parent_ids", "node_types"}
    assert (batch["node_types"][0, 6:] == -1).all()
    assert (batch["attention_mask"][0] == 0).tolist() == (batch["node_types"][0] == -1).tolist()


def test_truncation_leaves_no_anchor_without_a_token(tokenizer):
    processor = TreeBertProcessor(tokenizer, max_length=4)
    for longest in range(4, 40):
        processor.max_length = longest
        features = processor.document_features(DEEP)
        assert len(features["node_types"]) <= longest
        assert features["node_types"][-1] == NODE_TYPES["token"]


def test_the_processor_is_saved_with_its_options(tokenizer, tmp_path):
    processor = TreeBertProcessor(tokenizer, levels=4, max_sentence_tokens=9, query_as="global")
    processor.save_pretrained(tmp_path)
    again = AutoProcessor.from_pretrained(tmp_path)
    loaded = load_processor(tmp_path, TreeBertConfig())
    assert type(again) is type(loaded) is type(processor_for(TreeBertConfig(), tokenizer))
    assert loaded.to_dict() == again.to_dict()
    assert (again.levels, again.max_sentence_tokens, again.query_as) == (4, 9, "global")
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
