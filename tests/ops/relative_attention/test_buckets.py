import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers.models.t5.modeling_t5 import T5Attention

from foveate.ops.relative_attention import bias_by_distance, bucket_starts, buckets

DISTANCES = torch.arange(-5000, 5001)


def published(distance, num_buckets, max_distance, bidirectional):
    return T5Attention._relative_position_bucket(
        distance, bidirectional, num_buckets=num_buckets, max_distance=max_distance
    )


@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize(
    ("num_buckets", "max_distance"),
    # Among them exact powers, where the logarithm's last bit decides: 8·2^(i/2), 16·8^(i/16).
    [(32, 128), (32, 256), (64, 128), (16, 64), (8, 20), (10, 1000), (4, 9), (128, 4096)],
)
def test_buckets_are_those_of_transformers(num_buckets, max_distance, bidirectional):
    actual = buckets(DISTANCES, num_buckets, max_distance, bidirectional=bidirectional)
    assert torch.equal(actual, published(DISTANCES, num_buckets, max_distance, bidirectional))


@given(st.integers(2, 80), st.integers(1, 600), st.booleans())
def test_any_number_of_buckets(half, beyond, bidirectional):
    num_buckets, max_distance = 2 * half, half + beyond
    actual = buckets(DISTANCES, num_buckets, max_distance, bidirectional=bidirectional)
    assert torch.equal(actual, published(DISTANCES, num_buckets, max_distance, bidirectional))


def test_starts_are_the_distances_where_the_bucket_changes():
    starts = bucket_starts(32, 128, bidirectional=False)
    assert len(starts) == 32
    behind = torch.tensor(starts)
    assert buckets(-behind, 32, 128, bidirectional=False).tolist() == list(range(32))
    assert buckets(1 - behind[1:], 32, 128, bidirectional=False).tolist() == list(range(31))


@pytest.mark.parametrize("bidirectional", [True, False])
def test_bias_by_distance_ends_where_the_last_bucket_begins(bidirectional):
    table = torch.randn(32, 3)
    by_distance = bias_by_distance(table, 128, bidirectional=bidirectional)
    reach = by_distance.shape[1] // 2
    assert reach == bucket_starts(32, 128, bidirectional)[-1] < 128
    expected = table[published(DISTANCES, 32, 128, bidirectional)].T
    assert torch.equal(by_distance[:, DISTANCES.clamp(-reach, reach) + reach], expected)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((3, 128, True), "3 buckets are too few: at least 4 are needed"),
        ((1, 128, False), "1 buckets are too few: at least 2 are needed"),
        ((32, 8, True), "max_distance 8 must exceed 8"),
    ],
)
def test_invalid_buckets_are_rejected(arguments, message):
    with pytest.raises(ValueError, match=message):
        bucket_starts(*arguments)
