import pytest

from foveate.models.hdt import HDTConfig
from foveate.tasks.segments import segments


def test_every_layer_looks_closely_at_its_budget(segmented):
    _, seen = segmented
    assert seen.resolutions.shape == (4, len(seen.sentence_ids))
    assert set(seen.resolutions.unique().tolist()) == {1, 16}
    assert ((seen.resolutions == 1).sum(1) <= 90 * 16).all()
    assert ((seen.resolutions == 1).sum(1) > 89 * 16).all()
    assert seen.first_layer == 2


def test_what_cannot_be_looked_at_is_said(segmented, tmp_path):
    with pytest.raises(ValueError, match="the query is empty"):
        segments(" ", segmented[0])
    HDTConfig().save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="is a hdt model: name a BERT"):
        segments("cod", segmented[0], model=tmp_path)
