import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from foveate.tasks.plots.windows import (
    GLOBAL,
    KEYWORD,
    NEAR,
    PATTERNS,
    RANDOM,
    bigbird_pattern,
    longformer_pattern,
    plot_windows,
)
from tests.led import led


@given(st.integers(2, 30), st.integers(2, 9), st.data())
def test_longformer_sees_its_window_and_what_is_global(tokens, window, data):
    keywords = data.draw(st.integers(0, tokens - 1))
    image = longformer_pattern(tokens, window, keywords)
    for i in range(tokens):
        for j in range(tokens):
            if min(i, j) == 0:
                assert image[i, j] == GLOBAL
            elif min(i, j) <= keywords:
                assert image[i, j] == KEYWORD
            else:
                assert image[i, j] == (NEAR if abs(i - j) <= window // 2 else 0)


def test_what_is_painted_is_what_led_attends():
    """In one layer, a query depends on exactly the keys painted in its row."""
    model = led(20).get_encoder()
    tokens, keywords = 48, 3
    embedded = torch.randn(1, tokens, 16, generator=torch.Generator().manual_seed(0))
    marks = torch.zeros(1, tokens, dtype=torch.long)
    marks[:, : keywords + 1] = 1

    def hidden(inputs):
        return model(
            inputs_embeds=inputs, attention_mask=torch.ones_like(marks), global_attention_mask=marks
        ).last_hidden_state

    rows = torch.autograd.functional.jacobian(
        lambda inputs: hidden(inputs)[0].square().sum(-1), embedded
    )
    depends = rows[:, 0].abs().sum(-1) > 0
    assert np.array_equal(depends.numpy(), longformer_pattern(tokens, 16, keywords) > 0)


@given(st.integers(1, 60), st.integers(1, 6), st.integers(0, 5))
def test_bigbird_attends_blocks(tokens, block, seed):
    image = bigbird_pattern(tokens, block, seed=seed)
    owner = np.arange(tokens) // block
    last = owner[-1]
    for row in range(1, last):
        kinds = [image[row * block, column * block] for column in range(last + 1)]
        assert kinds[0] == kinds[-1] == GLOBAL
        assert all(kinds[j] == NEAR for j in range(max(1, row - 1), min(last - 1, row + 1) + 1))
        far = sum(abs(row - j) > 1 for j in range(1, last))
        assert kinds.count(RANDOM) == min(2, far)
    assert (image[owner == last] == GLOBAL).all()


def test_all_are_drawn(tmp_path):
    plot_windows(tmp_path / "patterns.png")
    plot_windows(
        tmp_path / "one.svg", patterns=["keywords"], num_tokens=12, window=4, num_keywords=2
    )
    assert (tmp_path / "patterns.png").stat().st_size > 5_000
    assert len(list(tmp_path.iterdir())) == 2
    assert PATTERNS == ("full", "longformer", "bigbird", "keywords")


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("p.docx", {}, "must end in the name of an image format"),
        ("p.png", {"patterns": []}, "name patterns of full, longformer, bigbird, keywords"),
        ("p.png", {"patterns": ["reformer"]}, "name patterns of .*; got reformer"),
        ("p.png", {"num_tokens": 4, "num_keywords": 4}, "fewer keywords than tokens"),
        ("p.png", {"window": 1}, "a window of at least 2"),
    ],
)
def test_invalid_arguments_are_refused(tmp_path, name, options, message):
    with pytest.raises(ValueError, match=message):
        plot_windows(tmp_path / name, **options)
    assert not list(tmp_path.iterdir())
