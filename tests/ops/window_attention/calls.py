"""Calls of window attention to try."""

import torch
from hypothesis import strategies as st

from foveate.ops.window_attention import GlobalKeysValues

HEADS = 2


def randn(*shape, seed=0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype)


@st.composite
def calls(draw, max_length=40, head_dim=4):
    """Arguments of `window_attention` by name, in float64."""
    lengths = draw(st.lists(st.integers(1, max_length), min_size=1, max_size=4))
    n, seed = sum(lengths), draw(st.integers(0, 99))
    qkv = {name: randn(n, HEADS, head_dim, seed=seed + i) for i, name in enumerate("qkv")}
    reach = st.sampled_from([0, 1, 2, 5, 31, 1000])
    call = {
        "window": (draw(reach), draw(reach)),
        "global_keys_values": draw(st.none() | global_keys_values(lengths, head_dim)),
        "masked_keys": draw(st.sampled_from([None, randn(n, seed=seed + 3) > 0.5])),
        "lengths": lengths,
        "max_distance": 12,
        "scale": draw(st.sampled_from([None, 1.0, 0.0, -0.3])),
    }
    if draw(st.booleans()):
        call["bias"] = randn(8, HEADS, seed=seed + 4)
    return qkv | call


@st.composite
def global_keys_values(draw, lengths, head_dim):
    """Global keys and values, with a bias or without."""
    global_lengths = draw(st.lists(st.integers(0, 9), min_size=len(lengths), max_size=len(lengths)))
    number, seed = sum(global_lengths), draw(st.integers(0, 99))
    k, v = randn(2, number, HEADS, head_dim, seed=seed)
    shown = draw(st.sampled_from([None, 0.5, 0.0]))  # which share of the keys, all or none
    masked = None if shown is None else randn(number, seed=seed + 1).sigmoid() >= shown
    if draw(st.booleans()):
        return GlobalKeysValues(k, v, global_lengths, masked=masked)
    positions = torch.cat([torch.arange(n) // 3 - 1 for n in lengths])
    return GlobalKeysValues(k, v, global_lengths, randn(6, HEADS, seed=8), positions, masked)


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
    if call["masked_keys"] is not None:
        arguments["masked_keys"] = call["masked_keys"].to(device)
    if (kv := call["global_keys_values"]) is not None:
        arguments["global_keys_values"] = kv._replace(
            k=leaf("global_k", kv.k),
            v=leaf("global_v", kv.v),
            bias=None if kv.bias is None else leaf("global_bias", kv.bias),
            positions=None if kv.positions is None else kv.positions.to(device),
            masked=None if kv.masked is None else kv.masked.to(device),
        )
    return arguments, leaves
