"""Attention of decoders against the sum that defines it, for one query and for several."""

import pytest
import torch

from foveate.models.decoding import attend_many, attend_one
from foveate.ops.relative_attention import buckets

BATCH, HEADS, KEYS, WIDTH, SCALE = 2, 3, 7, 4, 0.3


def defined(q, k, v, table, key_bias, past):
    scores = SCALE * q @ k.mT
    places = torch.arange(KEYS)
    if past is not None:
        distance = places - (past + torch.arange(q.shape[2]))[:, None]
        bucket = buckets(distance.clamp(max=0), len(table), 128, bidirectional=False)
        scores = scores + table[bucket].permute(2, 0, 1)
        scores = scores.masked_fill(distance > 0, -torch.inf)
    scores = scores + key_bias[:, None, None]
    return (scores.softmax(-1).nan_to_num(0) @ v).transpose(1, 2)


@pytest.fixture
def inputs():
    torch.manual_seed(0)
    q = torch.randn(BATCH, HEADS, KEYS, WIDTH, dtype=torch.float64)
    k, v = torch.randn(2, BATCH, HEADS, KEYS, WIDTH, dtype=torch.float64)
    table = torch.randn(8, HEADS, dtype=torch.float64)
    key_bias = torch.zeros(BATCH, KEYS, dtype=torch.float64)
    key_bias[0, 0] = key_bias[1, 5:] = -torch.inf
    return q, k, v, table, key_bias


@pytest.mark.parametrize("past", [None, 0, 3])
def test_several_queries(inputs, past):
    q, k, v, table, key_bias = inputs
    q = q[:, :, : KEYS - (past or 0)]
    wanted = defined(q, k, v, table, key_bias, past)
    own = None if past is None else table
    found = attend_many(q, k, v, table=own, key_bias=key_bias, past=past, scale=SCALE)
    torch.testing.assert_close(found, wanted, rtol=1e-10, atol=1e-12)


def test_a_single_query_is_the_last_of_several(inputs):
    q, k, v, table, key_bias = inputs
    several = attend_many(q, k, v, table=table, key_bias=key_bias, past=0, scale=SCALE)
    bucket = buckets(torch.arange(KEYS) - (KEYS - 1), len(table), 128, bidirectional=False)
    bias = table[bucket].T[:, None]
    one = attend_one(q[:, :, -1:], k, v, bias=bias, key_bias=key_bias, scale=SCALE)
    torch.testing.assert_close(one, several[:, -1:], rtol=1e-10, atol=1e-12)


def test_a_query_that_sees_no_key_is_a_number_and_has_gradients(inputs):
    q, k, v, _, key_bias = inputs
    leaves = [x.detach().requires_grad_() for x in (q, k, v)]
    hidden = torch.full_like(key_bias, -torch.inf)
    for attend, queries in ((attend_one, slice(-1, None)), (attend_many, slice(None))):
        out = attend(leaves[0][:, :, queries], *leaves[1:], key_bias=hidden)
        gradients = torch.autograd.grad(out.sum(), leaves)
        assert all(x.isfinite().all() for x in (out, *gradients))
