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
from foveate.preprocessing import (
    TreeBertProcessor,
    load_processor,
    pack_passages,
    processor_for,
)
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


def depths(parents):
    found = []
    for parent in parents.tolist():
        found.append(0 if parent < 0 else found[parent] + 1)
    return found


def passages_of(features):
    """The ids of each passage."""
    starts = (features["position_ids"] == 0).nonzero()[1:, 0]
    return [ids.tolist() for ids in features["input_ids"].tensor_split(starts)]


def test_every_passage_of_one_sentence_is_read_as_bert_reads_it(tokenizer):
    texts = ["Cod swim.", "They eat.", "Eels, too"]
    document = Document.from_sections("", [("", [text]) for text in texts])
    features = TreeBertProcessor(tokenizer).features(document)
    assert passages_of(features) == tokenizer(texts)["input_ids"]


def test_outlines_have_a_level_for_every_level_of_nesting(processor, tokenizer):
    features = processor.features(DEEP)
    kinds, depth = features["anchor_kinds"], depths(features["anchor_parents"])
    is_sentence = kinds == NODE_TYPES["sentence"]
    assert list(compress(depth, (~is_sentence).tolist())) == [0, 1, 2, 3, 1]
    assert list(compress(depth, is_sentence.tolist())) == [1, 2, 2, 2, 3, 3, 4, 4, 2, 2]
    flat = TreeBertProcessor(tokenizer, levels=3).features(DEEP)
    assert max(depths(flat["anchor_parents"])) == 2
    assert len(passages_of(flat)) == len(passages_of(features)) - 1  # the title is in a section


def test_documents_together_are_what_each_is_alone(processor):
    outlines = [outline(document) for document in (DEEP, Document.from_text("Cod swim."), DEEP)]
    together, owners = processor.tree(*outlines)
    alone = pack_passages([processor.tree(own)[0] for own in outlines])
    assert together.keys() == alone.keys()
    assert all(torch.equal(together[name], column[0]) for name, column in alone.items())
    assert owners == list(range(sum(map(len, outlines))))


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


def test_sentences_of_a_passage_follow_each_other_and_end_with_sep(processor, tokenizer):
    features = processor.features(DEEP)
    assert [tokenizer.decode(ids) for ids in passages_of(features)] == [
        "[CLS] fish [SEP]",
        "[CLS] cod [SEP] cod swim. [SEP] they eat. [SEP]",
        "[CLS] young cod [SEP] small. [SEP]",
        "[CLS] eggs [SEP] round. [SEP]",
        "[CLS] eel [SEP] eels are long. [SEP]",
    ]
    ids, anchors = features["input_ids"], features["anchor_ids"]
    assert torch.equal(anchors < 0, ids == CLS)
    assert torch.equal(anchors < 0, features["position_ids"] == 0)
    for i, kind in enumerate(features["anchor_kinds"].tolist()):
        own = ids[anchors == i].tolist()
        assert own[-1:] == ([SEP] if kind == NODE_TYPES["sentence"] else [])
        assert SEP not in own[:-1]


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
    assert features["anchor_kinds"].tolist() == [3, 2, 1]
    assert features["anchor_ids"].tolist() == [-1, 2, 2, 2]


def test_batches_are_padded(processor):
    short = Document.from_sections("", [("", ["Cod."])])
    batch = processor([short, DEEP])
    assert set(batch) == set(processor.columns)
    assert batch["attention_mask"][0].sum() == 4
    assert (batch["anchor_ids"][0, 4:] == -1).all()
    assert (batch["anchor_kinds"][0, 3:] == -1).all()


def test_truncation_ends_with_sep(tokenizer):
    processor = TreeBertProcessor(tokenizer)
    whole = processor.features(DEEP)
    for longest in range(2, 40):
        processor.max_length = longest
        features = processor.document_features(DEEP)
        size, anchors = len(features["input_ids"]), len(features["anchor_kinds"])
        assert min(longest, len(whole["input_ids"])) - 1 <= size <= longest
        assert features["anchor_ids"][-1] == anchors - 1
        assert features["input_ids"][-1] == SEP
        for name, column in features.items():
            end = -1 if name == "input_ids" else None
            assert torch.equal(column[:end], whole[name][: len(column)][:end])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"passage_tokens": 100}, "passages of 100 tokens are shorter than a sentence may be"),
        ({"passage_tokens": 254}, "passages of 254 tokens are shorter than a sentence may be"),
        ({"passage_tokens": 512}, "512 tokens and their .CLS. are longer than the 512 tokens"),
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
