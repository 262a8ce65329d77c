import numpy as np
import torch

import kept
from fusion import Judged


def test_tensors_and_words_are_kept(tmp_path):
    path = tmp_path / "read.npz"
    judged = Judged(torch.rand(3, 2, dtype=torch.float64), torch.tensor([True, False, True]))
    part = judged.features[1:]
    value = {"é": [judged, [part, ["sea", "fish"], 3, None]], "empty": torch.zeros(0, 4)}
    kept.save(path, value)
    assert list(tmp_path.iterdir()) == [path]
    loaded = kept.load(path)
    assert loaded.keys() == value.keys()
    (features, relevant), (its_part, *others) = loaded["é"]
    for found, expected in zip(
        (features, relevant, its_part, loaded["empty"]),
        (*judged, part, value["empty"]),
        strict=True,
    ):
        assert found.dtype == expected.dtype
        assert torch.equal(found, expected)
    assert others == [["sea", "fish"], 3, None]
    with np.load(path) as arrays:
        assert all(array.dtype != object for array in arrays.values())
