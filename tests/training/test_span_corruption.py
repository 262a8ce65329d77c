from collections import Counter

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from foveate import Document
from foveate.data import Example
from foveate.ops.tree_attention import Tree
from foveate.preprocessing import HDTProcessor
from foveate.training.objectives import MixtureOfDenoisers
from foveate.training.objectives.span_corruption import (
    T5,
    UL2,
    Denoiser,
    add_mode_token,
    corrupt_spans,
    random_spans_mask,
)
from foveate.training.tokenizer import train_tokenizer

SENTINELS = [1000 + i for i in range(501)]


@given(st.integers(2, 300), st.floats(0.01, 0.9), st.floats(1, 70), st.integers(0, 2**31))
def test_random_spans_add_up_to_the_noise_density(length, density, mean_span, seed):
    mask = random_spans_mask(length, density, mean_span, torch.Generator().manual_seed(seed))
    assert len(mask) == length
    assert not mask[0]
    assert mask[-1]
    hidden = min(max(round(length * density), 1), length - 1)
    assert mask.sum() == hidden
    spans = int((mask[1:] & ~mask[:-1]).sum())
    assert spans == min(max(round(hidden / mean_span), 1), hidden, length - hidden)


def restored(features):
    """What a decoder that writes the labels would put in place of the sentinels."""
    labels = features["labels"].tolist()
    assert labels.pop() == 1
    spans = {}
    for token in labels:
        if token in SENTINELS:
            assert token not in spans  # once, however many sentences a span extends over
            spans[token] = current = []
        else:
            current.append(token)
    ids, written = [], set()
    for token in features["input_ids"].tolist():
        ids += [token] if token not in spans else spans[token] if token not in written else []
        written.add(token)
    assert spans.keys() <= written
    return ids


def without_anchors(ids):
    """Ids but `<cls>`, `<sec>` and `<doc>`."""
    return [token for token in ids if token not in (4, 5, 6)]


@pytest.mark.parametrize("denoiser", UL2)
def test_labels_restore_the_masked_spans_and_the_tree_stays(
    denoiser, tree_processor, samples, generator
):
    for sample in samples:
        features = tree_processor.document_features(sample.document)
        hidden = corrupt_spans(
            features, denoiser, sentinel_ids=SENTINELS, end_token_id=1, generator=generator
        )
        tree = Tree.from_parents(hidden["parent_ids"])
        assert tree.level_sizes[0] == 1
        anchors = hidden["special_tokens_mask"] == 1
        assert not torch.isin(hidden["input_ids"][anchors], torch.tensor(SENTINELS)).any()
        tokens = int((features["special_tokens_mask"] == 0).sum())
        written = int((hidden["labels"] < 1000).sum()) - 1
        if denoiser.mode == "S":
            assert without_anchors(restored(hidden)) == without_anchors(
                features["input_ids"].tolist()
            )
            assert written == tokens - max(1, min(tokens - 1, round(0.5 * tokens)))
            continue
        assert without_anchors(restored(hidden)) == without_anchors(features["input_ids"].tolist())
        fewest = min(max(round(denoiser.noise_density * tokens), 1), tokens - 1)
        assert written >= fewest if denoiser.further_spans else written == fewest
        # anchors hang together as before
        original = features["parent_ids"][features["special_tokens_mask"] == 1]
        number = (features["special_tokens_mask"] == 1).long().cumsum(0) - 1
        expected = torch.where(original < 0, -1, number[original])
        left = hidden["parent_ids"][anchors]
        number = anchors.long().cumsum(0) - 1
        assert torch.equal(torch.where(left < 0, -1, number[left]), expected)


def test_plain_text_keeps_its_special_tokens(generator):
    features = {
        "input_ids": torch.tensor([50, 11, 12, 13, 14, 15, 16, 17, 18, 51]),
        "special_tokens_mask": torch.tensor([1, 0, 0, 0, 0, 0, 0, 0, 0, 1]),
        "vip_mask": torch.tensor([1] + 9 * [0]),
    }
    for denoiser in (T5, Denoiser("S", 0.25)):
        hidden = corrupt_spans(
            features, denoiser, sentinel_ids=SENTINELS, end_token_id=1, generator=generator
        )
        assert restored(hidden) == features["input_ids"].tolist()
        assert torch.equal(hidden["vip_mask"] == 1, hidden["input_ids"] >= 1000)


SENTENCES = [17] * 480
"""Lengths of the sentences of a document of 8,642 nodes."""


def long_document():
    """Features of a document of one section, as published pretraining reads."""
    ids, parents = [6, 5], [-1, 0]
    for length in SENTENCES:
        parents += [1] + [len(parents)] * length
        ids += [4] + [7] * length
    ids = torch.tensor(ids)
    special = torch.isin(ids, torch.tensor([4, 5, 6])).long()
    return {"input_ids": ids, "parent_ids": torch.tensor(parents), "special_tokens_mask": special}


@pytest.mark.parametrize("denoiser", UL2)
def test_published_spans_of_a_document_of_8192_tokens(denoiser, generator):
    hidden = corrupt_spans(
        long_document(), denoiser, sentinel_ids=SENTINELS, end_token_id=1, generator=generator
    )
    labels = hidden["labels"]
    sentinels = labels[labels >= 1000]
    assert sentinels.tolist() == SENTINELS[: len(sentinels)]  # none comes twice
    num_written = len(labels) - len(sentinels) - 1
    share = num_written / sum(SENTENCES)
    if denoiser.mode == "R":
        assert share == pytest.approx(0.15, abs=0.001)
        assert num_written / len(sentinels) == pytest.approx(3, abs=0.1)
    elif denoiser.mode == "S":
        assert share == pytest.approx(0.5, abs=0.001)
        assert len(sentinels) == 1
    else:  # half of the tokens, and a fifth of the others
        assert share == pytest.approx(0.6, abs=0.05)
        assert num_written / len(sentinels) > 32
        assert (hidden["input_ids"] == 4).sum() == len(SENTENCES)


def test_modes_are_drawn_and_announced_as_published(samples):
    tokenizer = train_tokenizer((sample.document for sample in samples), 900)
    processor, generator = HDTProcessor(tokenizer), torch.Generator().manual_seed(0)
    objective, drawn = MixtureOfDenoisers(), Counter()
    example = Example(document=samples[0].document)
    for _ in range(1600):
        [features] = objective.features(processor, example, generator)
        drawn[tokenizer.convert_ids_to_tokens(features["input_ids"].tolist())[1]] += 1
    assert drawn.keys() == {"<NLU>", "<S2S>", "<NLG>"}
    shares = [drawn[mode] / 1600 for mode in ("<NLU>", "<S2S>", "<NLG>")]
    assert shares == pytest.approx([0.25, 0.5, 0.25], abs=0.05)


def test_a_published_vocabulary_has_501_sentinels():
    tokenizer = train_tokenizer([Document.from_sections("", [("", "Cod swim.")])], 2100)
    assert "<extra_id_500>" in tokenizer.get_vocab()
    assert "<extra_id_501>" not in tokenizer.get_vocab()


def test_the_end_of_a_document_is_as_long_as_its_target(generator):
    hidden = corrupt_spans(
        long_document(),
        Denoiser("S", 0.5),
        sentinel_ids=SENTINELS,
        end_token_id=1,
        generator=generator,
        max_target_length=512,
    )
    assert len(hidden["labels"]) == 512
    assert (hidden["input_ids"] == 7).sum() == sum(SENTENCES) - 510


def test_sentinels_repeat_if_there_are_more_spans(generator):
    features = {"input_ids": torch.arange(50), "special_tokens_mask": torch.zeros(50)}
    hidden = corrupt_spans(
        features,
        Denoiser("R", 0.4, 1),
        sentinel_ids=[1000, 1001],
        end_token_id=1,
        generator=generator,
    )
    used = [token for token in hidden["labels"].tolist() if token >= 1000]
    assert used == [1000, 1001] * 10


def test_the_mode_token_is_under_the_root():
    features = {
        "input_ids": torch.tensor([1, 2, 3, 4]),
        "parent_ids": torch.tensor([-1, 0, 1, 2]),
        "special_tokens_mask": torch.tensor([1, 1, 1, 0]),
    }
    moved = add_mode_token(features, 9)
    assert moved["input_ids"].tolist() == [1, 9, 2, 3, 4]
    assert moved["parent_ids"].tolist() == [-1, 0, 0, 2, 3]
    assert moved["special_tokens_mask"].tolist() == [1, 1, 1, 1, 0]
    del features["parent_ids"]
    assert add_mode_token(features, 9)["input_ids"].tolist() == [9, 1, 2, 3, 4]


def test_a_document_of_one_token_is_rejected(generator):
    features = {"input_ids": torch.tensor([5]), "special_tokens_mask": torch.tensor([0])}
    with pytest.raises(ValueError, match="fewer than two tokens"):
        corrupt_spans(features, T5, sentinel_ids=SENTINELS, end_token_id=1, generator=generator)
