"""Whole rows of a batch are laid out like its real tokens, and all masks alike."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils import _pytree as pytree

from foveate.models.speed_ups import speed_up
from foveate.models.speed_ups.layouts import BlockSummaries, PackedSpans
from tests.models.test_speed_up_longt5 import KINDS, longt5
from tests.numerics import relative_error
from tests.synchronization import no_waiting


@st.composite
def masks(draw, max_length=40):
    """Masks `(batch, length)` with padding on both sides and inside, and sometimes without rest."""
    batch, length = draw(st.integers(1, 3)), draw(st.integers(1, max_length))
    real = torch.zeros(batch, length, dtype=torch.bool)
    for row in real:
        first, stop = sorted(draw(st.tuples(*[st.integers(0, length)] * 2)))
        row[first:stop] = True
        row[list(draw(st.sets(st.integers(0, length - 1), max_size=4)))] = False
    return real


def randn(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@given(masks(), st.integers(1, 9), st.integers(0, 20))
def test_rows_have_the_summaries_of_real_tokens(real, block_size, missing):
    packed = BlockSummaries.from_mask(real, block_size)
    states = randn(*real.shape, 3).masked_fill(~real[..., None], torch.nan)
    is_padding = F.pad(~real, (0, missing), value=True)
    with no_waiting():
        rows = BlockSummaries.of_rows(is_padding, block_size)
        sums = rows.sum(F.pad(states, (0, 0, 0, missing), value=torch.nan))
    blocks = -(-is_padding.shape[1] // block_size)
    assert rows.lengths == [blocks] * len(real)
    assert torch.isfinite(sums).all()
    assert relative_error(sums[~rows.hidden], packed.sum(states)) < 1e-12
    exists = ~rows.hidden.view(-1, blocks)
    assert exists.sum(1)[real.any(1)].tolist() == packed.lengths
    assert not (exists[:, 1:] & ~exists[:, :-1]).any()  # they keep their positions
    positions = rows.positions.view_as(is_padding)[:, : real.shape[1]]
    assert torch.equal(packed.packed.pack(positions), packed.positions)


@given(masks(), st.integers(1, 9))
@settings(max_examples=20)
def test_rows_of_all_masks_are_laid_out_alike(real, block_size):
    (leaves, spec), (others, other_spec) = (
        pytree.tree_flatten(BlockSummaries.of_rows(mask, block_size)) for mask in (real, ~real)
    )
    assert spec == other_spec
    for leaf, other in zip(leaves, others, strict=True):
        if isinstance(leaf, torch.Tensor):
            assert (leaf.shape, leaf.dtype) == (other.shape, other.dtype)
        else:
            assert leaf == other


@pytest.mark.parametrize("kind", KINDS)
@given(real=masks(), missing=st.integers(0, 20))
@settings(max_examples=15)
def test_longt5_of_rows_is_that_of_real_tokens(kind, real, missing):
    encoder = speed_up(longt5(kind)).encoder
    embeddings = randn(*real.shape, 16).requires_grad_()
    is_padding = F.pad(~real, (0, missing), value=True)
    layout = PackedSpans.of_rows(is_padding)
    if kind == "transient-global":
        layout = BlockSummaries.of_rows(is_padding, encoder.config.global_block_size)
    sources = [embeddings, *encoder.block.parameters()]

    weight = randn(*real.shape, 16, seed=1)

    def gradients(loss):
        found = torch.autograd.grad(
            loss.sum(), sources, retain_graph=True, materialize_grads=True, allow_unused=True
        )
        return torch.cat([x.flatten() for x in found])

    expected = encoder(inputs_embeds=embeddings, attention_mask=real.long()).last_hidden_state[real]
    rows = encoder.run_layers(F.pad(embeddings, (0, 0, 0, missing)), layout)
    actual = rows[:, : real.shape[1]]
    assert torch.isfinite(rows).all()
    assert torch.isfinite(gradients(actual * weight)).all()
    actual, weight = actual[real], weight[real]
    assert relative_error(actual, expected) < 1e-10
    assert relative_error(gradients(actual * weight), gradients(expected * weight)) < 1e-10
