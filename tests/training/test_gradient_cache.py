"""The cached loss and its gradients are those of the whole batch at once."""

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from foveate.training.gradient_cache import cached_loss


def loss_of(vectors):
    x = torch.cat([v for v, _ in vectors])
    return (x @ x.T).logsumexp(-1).mean() + sum(s.square().sum() for _, s in vectors)


@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.floats(0.1, 10))
def test_gradients_are_those_of_the_whole_batch(sizes, scale):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 4)).double()
    chunks = [torch.randn(size, 3, dtype=torch.double) for size in sizes]

    def encode(chunk):
        x = model(chunk)
        return x, x.sum(-1)

    whole = loss_of([encode(chunk) for chunk in chunks])
    (scale * whole).backward()
    expected = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    cached = cached_loss(encode, chunks, loss_of)
    (scale * cached).backward()
    torch.testing.assert_close(cached, whole)
    for p, grad in zip(model.parameters(), expected, strict=True):
        torch.testing.assert_close(p.grad, grad)


def test_an_output_without_influence_is_allowed():
    model = nn.Linear(2, 2)
    loss = cached_loss(
        lambda x: (model(x), model(x) * 2), [torch.ones(1, 2)], lambda v: v[0][0].sum()
    )
    loss.backward()
    assert model.weight.grad.norm() > 0


def test_dropout_is_repeated_in_the_second_pass():
    torch.manual_seed(0)
    dropout, weight = nn.Dropout(0.5), torch.ones(64, requires_grad=True)
    seen = []

    def encode(chunk):
        x = dropout(weight * chunk)
        seen.append(x.detach())
        return (x,)

    cached_loss(
        encode, [torch.ones(64), torch.ones(64)], lambda v: sum(x.sum() for (x,) in v)
    ).backward()
    first, second, again_first = seen  # the graph of the last one is kept
    assert torch.equal(first, again_first)
    assert not torch.equal(first, second)


def test_nothing_is_computed_twice_without_gradients():
    calls = []
    with torch.no_grad():
        loss = cached_loss(
            lambda x: (calls.append(1), (x,))[1], [torch.ones(1)], lambda v: v[0][0].sum()
        )
    assert float(loss) == 1
    assert len(calls) == 1
