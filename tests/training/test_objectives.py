from types import SimpleNamespace

import pytest
import torch
from transformers import BatchEncoding

from foveate import Document
from foveate.training.contrastive import in_batch, triplet
from foveate.training.objectives import (
    Classification,
    Contrast,
    MaskedLM,
    MixtureOfDenoisers,
    MultipleChoice,
    SequenceToSequence,
    Span,
    SpanCorruption,
)
from foveate.training.reading import as_text, question_and_text
from tests.numerics import relative_error

WHALE = Document.from_sections("", [("Loomings", ["The whale swims.", "A ship follows it."])])
COD = Document.from_sections("", [("Fish", ["Northern seas and ice."])])


def example(document=WHALE, **fields):
    empty = {"question": "", "choices": (), "references": (), "labels": ()}
    return SimpleNamespace(document=document, **(empty | fields))


def batch_of(objective, reader, *examples):
    rng = torch.Generator().manual_seed(0)
    rows = [row for one in examples for row in objective.rows(reader, one, rng)]
    return rows, objective.collate(reader, rows)


def test_masked_trees_are_one_row_and_texts_are_padded(tree_reader, text_reader):
    rows, batch = batch_of(MaskedLM(), tree_reader, example(), example(COD))
    assert set(batch) == {"input_ids", "labels", "parent_ids"}
    assert batch["input_ids"].shape == (1, sum(len(row["input_ids"]) for row in rows))
    assert (batch["parent_ids"] == -1).sum() == 2
    rows, batch = batch_of(MaskedLM(), text_reader, example(), example(COD))
    assert set(batch) == {"input_ids", "attention_mask", "labels"}
    assert len(batch["labels"]) == 2


def test_what_is_written_ends_within_its_limit(tree_reader, text_reader):
    end = tree_reader.tokenizer.eos_token_id
    for objective in (SpanCorruption(max_target_length=4), MixtureOfDenoisers(max_target_length=4)):
        _, batch = batch_of(objective, tree_reader, example(), example(COD))
        assert batch["labels"].shape[1] <= 4
        for labels in batch["labels"]:
            assert labels[labels != -100][-1] == end
    target = example(references=("A ship follows the whale.", "Another."))
    _, batch = batch_of(SequenceToSequence(), text_reader, target)
    written = text_reader.tokenizer.decode(batch["labels"][0], skip_special_tokens=True)
    assert written.strip() == "A ship follows the whale."
    assert batch["labels"][0, -1] == end


def test_questions_are_read_first(tree_reader, text_reader):
    asked = example(question="Which ship?", references=("a",))
    for reader in (tree_reader, text_reader):
        [row], _ = batch_of(SequenceToSequence(), reader, asked)
        tokens = row["input_ids"][row["special_tokens_mask"] == 0]
        assert reader.tokenizer.decode(tokens).strip().startswith("Which ship?")


def test_classes_are_numbered(tree_reader):
    one = Classification(("sea", "land"))
    _, batch = batch_of(one, tree_reader, example(labels=("land",)), example(COD, labels=("sea",)))
    assert batch["labels"].tolist() == [1, 0]
    several = Classification(("sea", "land"), several=True)
    _, batch = batch_of(several, tree_reader, example(labels=("sea", "land")), example(COD))
    assert batch["labels"].tolist() == [[1.0, 1.0], [0.0, 0.0]]
    assert several.configuration()["problem_type"] == "multi_label_classification"


def test_choices_are_a_dimension_of_their_own(text_reader):
    asked = example(question="Where?", choices=("sea", "on land", "ice"), references=("ice",))
    _, batch = batch_of(MultipleChoice(), text_reader, asked, asked)
    assert batch["input_ids"].shape[:2] == (2, 3)
    assert batch["labels"].tolist() == [2, 2]
    fewer = example(choices=("sea", "ice"), references=("ice",))
    with pytest.raises(ValueError, match=r"have \[2, 3\] choices"):
        batch_of(MultipleChoice(), text_reader, asked, fewer)


def test_spans_are_found_behind_the_question(text_reader, small_tokenizer):
    asked = example(question="Does a ship follow it?", references=("Nemo", "ship follows it"))
    [row], batch = batch_of(Span(), text_reader, asked)
    found = row["input_ids"][row["start_positions"] : row["end_positions"] + 1]
    assert small_tokenizer.decode(found).strip() == "ship follows it"
    assert row["start_positions"] > 5
    assert batch["end_positions"].shape == (1,)
    [row], _ = batch_of(Span(), text_reader, example(references=("Nemo",)))
    assert row["start_positions"] == row["end_positions"] == 0
    short = as_text(small_tokenizer, max_length=8)
    [row], _ = batch_of(Span(), short, asked)
    assert row["end_positions"] == 0


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        ("no", "no"),
        ("it", "it"),
        ("(9)", "(9)"),
        ("ship", ""),
        ("ark", ""),
    ],
)
def test_spans_are_whole_words(answer, found, text_reader, small_tokenizer):
    sentences = ["We know its sails.", "But no ark9 has it (9)."]
    document = Document.from_sections("", [("Ships", sentences)])
    [row], _ = batch_of(Span(), text_reader, example(document, references=(answer,)))
    start, end = int(row["start_positions"]), int(row["end_positions"])
    assert (start > 0) == bool(found)
    if found:
        text = question_and_text(document, "")
        places = row["offsets"]
        first = text.index(f" {found}", text.index("But")) + 1
        assert int(places[start, 0]) in (first - 1, first)
        assert int(places[end, 1]) >= first + len(found)


def test_vip_tokens_are_the_question_and_the_first(small_tokenizer):
    reader = as_text(small_tokenizer, vips=True)
    asked = example(question="Which ship?", references=("a",))
    [row], batch = batch_of(SequenceToSequence(), reader, asked)
    vips = row["input_ids"][row["vip_mask"] == 1]
    assert small_tokenizer.decode(vips).strip() == "Which ship?"
    assert batch["vip_mask"].shape == batch["input_ids"].shape
    [row], _ = batch_of(SpanCorruption(), reader, example())
    vips = small_tokenizer.convert_ids_to_tokens(row["input_ids"][row["vip_mask"] == 1])
    assert vips
    assert all(token.startswith("<extra_id") for token in vips)


def test_contrast_sorts_documents_by_their_part(tree_reader):
    triple = SimpleNamespace(document=WHALE, related=(COD, WHALE))
    rows, batch = batch_of(Contrast(), tree_reader, triple, triple)
    assert batch["labels"].tolist() == [0, 1]
    assert batch["input_ids"].shape[0] == 6
    cod = rows[1]["input_ids"]
    assert torch.equal(batch["input_ids"][2, : len(cod)], cod)
    assert torch.equal(batch["input_ids"][3, : len(cod)], cod)
    rows = torch.randn(6, 3, 4)
    output = BatchEncoding({"last_hidden_state": rows})
    loss = Contrast().measure(SimpleNamespace(**output), batch["labels"])
    expected = torch.nn.functional.triplet_margin_loss(*rows[:, 0].split(2), margin=1.0)
    assert relative_error(loss, expected) < 1e-6
    accumulated = Contrast().measure(SimpleNamespace(**output), batch["labels"], 8)
    assert relative_error(accumulated, expected / 4) < 1e-6


def test_losses_are_those_of_sentence_transformers():
    losses = pytest.importorskip("sentence_transformers.losses")
    columns = list(torch.randn(3, 5, 8))
    ranking = losses.MultipleNegativesRankingLoss(torch.nn.Identity())
    expected = ranking.compute_loss_from_embeddings(columns, None)
    assert relative_error(in_batch(columns).mean(), expected) < 1e-5
    assert triplet(columns).shape == (5,)
    with pytest.raises(ValueError, match="needs an anchor, a positive and a negative"):
        triplet(columns[:2])


@pytest.mark.parametrize(
    ("objective", "bad", "message"),
    [
        (SequenceToSequence(), example(), "no reference to write"),
        (Classification(("a", "b")), example(), r"has the labels \[\]: let it have one"),
        (Classification(("a", "b")), example(labels=("c",)), "'c' is not among the labels"),
        (MultipleChoice(), example(choices=("a",)), "does not say which choice"),
        (Contrast(), SimpleNamespace(document=WHALE, related=()), "no positive"),
        (Span(), example(), "read as text"),
    ],
)
def test_examples_that_do_not_fit_are_refused(objective, bad, message, tree_reader):
    with pytest.raises(ValueError, match=message):
        batch_of(objective, tree_reader, bad)


def test_a_vocabulary_without_what_is_needed_is_refused(bert_tokenizer):
    reader = as_text(bert_tokenizer)
    with pytest.raises(ValueError, match="no sentinel '<extra_id_0>'"):
        batch_of(SpanCorruption(), reader, example())
    with pytest.raises(ValueError, match="no mode token"):
        batch_of(MixtureOfDenoisers(), reader, example())
