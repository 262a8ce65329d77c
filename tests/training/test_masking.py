import pytest
import torch

from foveate.training.masking import mask_tokens


def masked(row, rng, ratio=0.15):
    return mask_tokens(row, ratio=ratio, mask_id=3, vocabulary=420, rng=rng)


def test_anchors_are_never_hidden_and_labels_tell_the_truth(tree_reader, samples, rng):
    for sample in samples:
        row = tree_reader.read(sample.document, "")
        hidden = masked(row, rng)
        counted = hidden["labels"] != -100
        assert not (counted & (row["special_tokens_mask"] == 1)).any()
        tokens = int((row["special_tokens_mask"] == 0).sum())
        assert counted.sum() == max(1, round(0.15 * tokens))
        assert torch.equal(hidden["labels"][counted], row["input_ids"][counted])
        assert torch.equal(hidden["input_ids"][~counted], row["input_ids"][~counted])
        assert torch.equal(hidden["parent_ids"], row["parent_ids"])


def test_of_the_hidden_four_fifths_are_masks(rng):
    row = {"input_ids": torch.full((40_000,), 7), "special_tokens_mask": torch.zeros(40_000)}
    hidden = masked(row, rng, ratio=0.5)
    counted = hidden["labels"] != -100
    shares = [(hidden["input_ids"][counted] == own).float().mean() for own in (3, 7)]
    assert shares[0] == pytest.approx(0.8, abs=0.02)
    assert shares[1] == pytest.approx(0.1, abs=0.02)


def test_what_is_hidden_are_the_vip_tokens(rng):
    row = {
        "input_ids": torch.arange(20),
        "special_tokens_mask": torch.zeros(20),
        "vip_mask": torch.ones(20),
    }
    hidden = masked(row, rng)
    assert torch.equal(hidden["vip_mask"] == 1, hidden["labels"] != -100)


def test_a_row_without_tokens_is_refused(rng):
    with pytest.raises(ValueError, match="nothing to mask"):
        masked({"input_ids": torch.ones(3), "special_tokens_mask": torch.ones(3)}, rng)
