import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from foveate.ops.tree_attention import Tree
from foveate.training.objectives.span_corruption import (
    T5,
    UL2,
    Denoiser,
    add_mode_token,
    corrupt_spans,
    random_spans_mask,
)

SENTINELS = [1000 + i for i in range(100)]


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
            spans[token] = current = []
        else:
            current.append(token)
    ids = []
    for token in features["input_ids"].tolist():
        ids += spans.pop(token) if token in spans else [token]
    assert spans == {}
    return ids


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
            kept = [t for t in restored(hidden) if t not in (4, 5, 6)]
            assert kept == [t for t in features["input_ids"].tolist() if t not in (4, 5, 6)]
            assert written == tokens - max(1, min(tokens - 1, round(0.75 * tokens)))
            continue
        assert restored(hidden) == features["input_ids"].tolist()
        assert written == min(max(round(denoiser.noise_density * tokens), 1), tokens - 1)
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
