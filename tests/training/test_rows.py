import torch

from foveate.training.rows import forest, pad

ONE = {"input_ids": torch.tensor([5, 6, 7]), "parent_ids": torch.tensor([-1, 0, 1])}
TWO = {"input_ids": torch.tensor([8, 9]), "parent_ids": torch.tensor([-1, 0])}


def test_a_forest_is_one_row_of_whole_trees():
    batch = forest([ONE, TWO])
    assert batch["input_ids"].tolist() == [[5, 6, 7, 8, 9]]
    assert batch["parent_ids"].tolist() == [[-1, 0, 1, -1, 3]]


def test_padding_is_told_from_rows():
    batch = pad(
        [
            {**ONE, "labels": torch.tensor([1]), "label": torch.tensor(2)},
            {**TWO, "labels": torch.tensor([3, 4]), "label": torch.tensor(0)},
        ],
        padding_id=99,
    )
    assert batch["input_ids"].tolist() == [[5, 6, 7], [8, 9, 99]]
    assert batch["attention_mask"].tolist() == [[1, 1, 1], [1, 1, 0]]
    assert batch["parent_ids"].tolist() == [[-1, 0, 1], [-1, 0, -1]]
    assert batch["labels"].tolist() == [[1, -100], [3, 4]]
    assert batch["label"].tolist() == [2, 0]
