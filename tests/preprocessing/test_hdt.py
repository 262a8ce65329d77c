import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoProcessor, AutoTokenizer

from foveate import Document
from foveate.inference import default_model_path
from foveate.models.hdt import HDTConfig
from foveate.ops.tree_attention import Tree
from foveate.preprocessing import HDTProcessor
from foveate.preprocessing.tree import NODE_TYPES, outline

FISH = Document.from_sections(
    "Fish",
    [
        ("Cod", ["Cod swim.", "They eat."], [("Young cod", ["They are small."])]),
        ("Eel", ["Eels are long."]),
    ],
)


def sketch(anchors):
    """One line per anchor: indented by depth, named by kind or words."""
    depth = []
    for anchor in anchors:
        depth.append(0 if anchor.parent < 0 else depth[anchor.parent] + 1)
    return [
        "  " * d + (anchor.text or anchor.kind) for d, anchor in zip(depth, anchors, strict=True)
    ]


def test_the_outline_keeps_every_level():
    assert sketch(outline(FISH)) == [
        "document",
        "  Fish",
        "  section",
        "    Cod",
        "    Cod swim.",
        "    They eat.",
        "    section",
        "      Young cod",
        "      They are small.",
        "  section",
        "    Eel",
        "    Eels are long.",
    ]


def test_the_published_form_has_three_levels():
    assert sketch(outline(FISH, levels=3)) == [
        "document",
        "  section",
        "    Fish",
        "    Cod",
        "    Cod swim.",
        "    They eat.",
        "  section",
        "    Young cod",
        "    They are small.",
        "  section",
        "    Eel",
        "    Eels are long.",
    ]


def test_titles_are_no_sentences_of_the_document():
    anchors = [anchor for anchor in outline(FISH) if anchor.sentence_idx is not None]
    assert [anchor.sentence_idx for anchor in anchors] == list(range(len(anchors)))
    assert [anchor.text for anchor in anchors] == [one.text for one in FISH.sentences()]


def words(processor, batch, row=0):
    tokens = processor.tokenizer.convert_ids_to_tokens(batch["input_ids"][row])
    real = batch["attention_mask"][row].bool().tolist()
    return [token for token, is_real in zip(tokens, real, strict=True) if is_real]


def test_rows_are_anchors_and_the_tokens_under_them(tokenizer):
    processor = HDTProcessor(tokenizer)
    features = processor.features(Document.from_sections("", [("Eel", ["Eels swim."])]))
    batch = processor.pad([features])
    assert words(processor, batch) == [
        "[CLS]", "[CLS]", "[CLS]", "eel", "[CLS]", "eels", "swim", ".",
    ]  # fmt: skip
    assert batch["parent_ids"].tolist() == [[-1, 0, 1, 2, 1, 4, 4, 4]]
    assert batch["node_types"].tolist() == [[3, 2, 1, 0, 1, 0, 0, 0]]


def test_padding_has_no_parent_and_is_masked(tokenizer):
    short = Document.from_sections("", [("", ["Eels."])])
    processor = HDTProcessor(tokenizer)
    batch = processor.pad([processor.features(document) for document in (FISH, short)])
    length = int(batch["attention_mask"][1].sum())
    assert batch["attention_mask"][1, length:].sum() == 0
    assert (batch["parent_ids"][1, length:] == -1).all()
    assert (batch["special_tokens_mask"][1, length:] == 1).all()
    alone = HDTProcessor(tokenizer)(short)
    assert torch.equal(alone["input_ids"][0], batch["input_ids"][1, :length])


@pytest.mark.filterwarnings("ignore:a document has more than")
@given(st.integers(4, 60), st.sampled_from([3, 4, None]), st.sampled_from([1, 2, 100]))
def test_truncation_keeps_ancestors_and_leaves_no_bare_anchor(tokenizer, length, levels, longest):
    processor = HDTProcessor(
        tokenizer, levels=levels, max_length=length, max_sentence_tokens=longest
    )
    features = processor.features(FISH)
    parents, types = features["parent_ids"], features["node_types"]
    assert len(parents) <= length
    assert (parents[1:] < torch.arange(1, len(parents))).all()
    assert (parents[1:] >= 0).all()
    Tree.from_parents(parents)
    assert types[-1] == NODE_TYPES["token"]
    sizes = torch.bincount(parents[types == NODE_TYPES["token"]])
    assert sizes.max() <= longest


def test_a_query_can_be_the_first_section(tokenizer):
    processor = HDTProcessor(tokenizer)
    batch = processor(FISH, query="what is long?")
    assert words(processor, batch)[:8] == [
        "[CLS]", "[CLS]", "[CLS]", "what", "is", "long", "?", "[CLS]",
    ]  # fmt: skip
    assert batch["parent_ids"][0, :8].tolist() == [-1, 0, 1, 2, 2, 2, 2, 0]


def test_a_query_can_stand_beside_the_sections(tokenizer):
    processor = HDTProcessor(tokenizer, query_as="global")
    batch = processor(FISH, query=["what is long?"])
    assert words(processor, batch)[:6] == ["[CLS]", "what", "is", "long", "?", "[CLS]"]
    assert batch["parent_ids"][0, :7].tolist() == [-1, 0, 0, 0, 0, 0, 5]


def test_saves_and_loads_beside_the_tokenizer(tmp_path):
    tokenizer = AutoTokenizer.from_pretrained(default_model_path())  # not the one others share
    tokenizer.add_tokens(["<doc>"])
    HDTProcessor(tokenizer, levels=None, max_length=50, sec_token="[SEP]").save_pretrained(tmp_path)
    HDTConfig().save_pretrained(tmp_path)
    for load in (HDTProcessor.from_pretrained, AutoProcessor.from_pretrained):
        again = load(tmp_path)
        assert type(again) is HDTProcessor
        assert (again.levels, again.max_length, again.max_sentence_tokens) == (None, 50, 256)
        assert (again.doc_token, again.sec_token, again.sent_token) == ("<doc>", "[SEP]", "[CLS]")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"levels": 2}, "levels must be at least 3 or None, got 2"),
        ({"query_as": "word"}, "query_as must be 'section' or 'global', got 'word'"),
        ({"max_length": 1}, "max_length must be at least 4"),
        ({"sec_token": "<section>"}, "has no token '<section>' for sec_token"),
    ],
)
def test_impossible_settings_are_refused(tokenizer, arguments, message):
    with pytest.raises(ValueError, match=message):
        HDTProcessor(tokenizer, **arguments)


def test_rows_that_were_encoded_one_by_one_are_collated(tokenizer):
    processor = HDTProcessor(tokenizer)
    short = Document.from_sections("", [("", ["Eels."])])
    together = processor([FISH, short])
    rows = [{name: column[0] for name, column in processor(d).items()} for d in (FISH, short)]
    rows[0]["labels"], rows[1]["labels"] = rows[0]["input_ids"], rows[1]["input_ids"]
    collated = processor.pad(rows)
    for name, column in together.items():
        assert torch.equal(collated[name], column)
    assert (collated["labels"][together["attention_mask"] == 0] == -100).all()
    assert processor.pad([{**row, "labels": 1} for row in rows])["labels"].tolist() == [1, 1]


def test_documents_and_queries_must_fit(tokenizer):
    with pytest.raises(ValueError, match="nothing to encode: give at least one document"):
        HDTProcessor(tokenizer)([])
    with pytest.raises(ValueError, match="numbers of documents and queries differ: 1 and 2"):
        HDTProcessor(tokenizer)([FISH], query=["a", "b"])
