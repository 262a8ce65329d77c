import numpy as np
import pytest
import torch

from foveate.tasks.plots.vip import closeness, plot_vip


def test_a_picture_is_drawn(sea, tmp_path):
    for suffix in ("png", "svg"):
        plot_vip("Where does it cost $5?", sea, tmp_path / f"seen.{suffix}", device="cpu")
        assert (tmp_path / f"seen.{suffix}").stat().st_size > 3_000
    with pytest.raises(ValueError, match="must end in the name of an image format"):
        plot_vip("cod", sea, tmp_path / "seen.txt")


def test_cells_show_their_closest_token():
    resolutions = torch.tensor([[16, 16, 4, 4, 1, 16]])
    assert np.allclose(closeness(resolutions, 6), [[0, 0, 0.5, 0.5, 1, 0]])
    assert np.allclose(closeness(resolutions, 3), [[0, 0.5, 1]])
