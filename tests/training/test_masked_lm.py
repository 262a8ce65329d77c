import pytest
import torch

from foveate.training.objectives.masked_lm import mask_tokens


def masked(features, generator, ratio=0.15):
    return mask_tokens(features, ratio=ratio, mask_token_id=3, vocab_size=420, generator=generator)


def test_anchors_are_never_masked_and_labels_are_the_original_ids(
    tree_processor, samples, generator
):
    for sample in samples:
        features = tree_processor.document_features(sample.document)
        changed = masked(features, generator)
        counted = changed["labels"] != -100
        assert not (counted & (features["special_tokens_mask"] == 1)).any()
        tokens = int((features["special_tokens_mask"] == 0).sum())
        assert counted.sum() == max(1, round(0.15 * tokens))
        assert torch.equal(changed["labels"][counted], features["input_ids"][counted])
        assert torch.equal(changed["input_ids"][~counted], features["input_ids"][~counted])
        assert torch.equal(changed["parent_ids"], features["parent_ids"])


def test_four_fifths_of_the_masked_tokens_are_mask_tokens(generator):
    features = {"input_ids": torch.full((40_000,), 7), "special_tokens_mask": torch.zeros(40_000)}
    changed = masked(features, generator, ratio=0.5)
    counted = changed["labels"] != -100
    shares = [(changed["input_ids"][counted] == own).float().mean() for own in (3, 7)]
    assert shares[0] == pytest.approx(0.8, abs=0.02)
    assert shares[1] == pytest.approx(0.1, abs=0.02)


def test_masked_tokens_are_the_vip_tokens(generator):
    features = {
        "input_ids": torch.arange(20),
        "special_tokens_mask": torch.zeros(20),
        "vip_mask": torch.ones(20),
    }
    changed = masked(features, generator)
    assert torch.equal(changed["vip_mask"] == 1, changed["labels"] != -100)


def test_a_document_without_tokens_is_rejected(generator):
    with pytest.raises(ValueError, match="no token to mask"):
        masked({"input_ids": torch.ones(3), "special_tokens_mask": torch.ones(3)}, generator)
