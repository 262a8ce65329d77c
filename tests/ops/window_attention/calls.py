"""Calls of window attention to try."""

import torch
from hypothesis import strategies as st

from foveate.ops.window_attention import Side

HEADS = 2


def randn(*shape, seed=0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype)


@st.composite
def calls(draw, max_length=40, head_dim=4, dilated=True):
    """Arguments of `window_attention` by name, in float64."""
    lengths = draw(st.lists(st.integers(1, max_length), min_size=1, max_size=4))
    n, seed = sum(lengths), draw(st.integers(0, 99))
    rows = {name: randn(n, HEADS, head_dim, seed=seed + i) for i, name in enumerate("qkv")}
    reach = st.sampled_from([0, 1, 2, 5, 31, 1000])
    call = {
        "window": (draw(reach), draw(reach)),
        "side": draw(st.none() | sides(lengths, head_dim)),
        "hidden": draw(st.sampled_from([None, randn(n, seed=seed + 3) > 0.5])),
        "lengths": lengths,
        "max_distance": 12,
        "scale": draw(st.sampled_from([None, 1.0, -0.3])),
    }
    if draw(st.booleans()):
        call["bias"] = randn(8, HEADS, seed=seed + 4)
    elif dilated:
        call["dilation"] = draw(st.sampled_from([1, 3, (1, 2), (2, 2)]))
    return rows | call


@st.composite
def sides(draw, lengths, head_dim):
    """Side rows, with a bias or without."""
    side_lengths = draw(st.lists(st.integers(0, 9), min_size=len(lengths), max_size=len(lengths)))
    k, v = randn(2, sum(side_lengths), HEADS, head_dim, seed=draw(st.integers(0, 99)))
    if draw(st.booleans()):
        return Side(k, v, side_lengths)
    positions = torch.cat([torch.arange(n) // 3 - 1 for n in lengths])
    return Side(k, v, side_lengths, randn(6, HEADS, seed=8), positions)


def prepared(call, dtype=torch.float64, device="cpu"):
    """The call with its tensors brought to a dtype and a device, and those that have gradients."""
    leaves = {}

    def leaf(name, x):
        leaves[name] = x.detach().to(device, dtype).requires_grad_()
        return leaves[name]

    arguments = {
        name: leaf(name, x) if name in ("q", "k", "v", "bias") and x is not None else x
        for name, x in call.items()
    }
    if call["hidden"] is not None:
        arguments["hidden"] = call["hidden"].to(device)
    if (side := call["side"]) is not None:
        arguments["side"] = side._replace(
            k=leaf("side.k", side.k),
            v=leaf("side.v", side.v),
            bias=None if side.bias is None else leaf("side.bias", side.bias),
            positions=None if side.positions is None else side.positions.to(device),
        )
    return arguments, leaves
