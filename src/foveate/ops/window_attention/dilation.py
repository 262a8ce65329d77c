"""Dilated windows as plain ones: each remainder modulo d becomes a separate sequence."""

from collections.abc import Callable, Sequence
from itertools import accumulate

import torch
from torch import Tensor

from .global_attention import GlobalKeysValues

Attention = Callable[
    [Tensor, Tensor, Tensor, GlobalKeysValues, Tensor | None, Sequence[int]], Tensor
]
"""Takes q, k, v, the global keys and values, the masked keys and the lengths."""


def dilated_attention(
    attend: Attention,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    global_keys_values: GlobalKeysValues,
    masked_keys: Tensor | None,
    dilation: int,
    lengths: Sequence[int],
) -> Tensor:
    """Call `attend` with tokens ordered by their remainders modulo the dilation.

    Args:
        attend: Attention with windows that are not dilated.
        q: Queries `(tokens, heads, head_dim)`.
        k: Keys, same shape.
        v: Values, same shape.
        global_keys_values: Keys and values that all tokens of a sequence see.
        masked_keys: `(tokens,)` bool or None.
        dilation: Distance between neighbours in a window.
        lengths: The number of tokens in each sequence.
    """
    kv = global_keys_values
    order: list[Tensor] = []
    kv_order: list[Tensor] = []
    kv_lengths: list[int] = []
    starts, kv_starts = accumulate(lengths, initial=0), accumulate(kv.lengths, initial=0)
    for n, start, kv_n, kv_start in zip(lengths, starts, kv.lengths, kv_starts, strict=False):
        for remainder in range(min(dilation, n)):
            order.append(torch.arange(start + remainder, start + n, dilation))
            kv_order.append(torch.arange(kv_start, kv_start + kv_n))
            kv_lengths.append(kv_n)
    index, kv_index = torch.cat(order).to(q.device), torch.cat(kv_order).to(q.device)
    kv = kv._replace(
        k=kv.k.index_select(0, kv_index),
        v=kv.v.index_select(0, kv_index),
        lengths=kv_lengths,
        positions=None if kv.positions is None else kv.positions[index],
        masked=None if kv.masked is None else kv.masked[kv_index],
    )
    q, k, v = (x.index_select(0, index) for x in (q, k, v))
    masked_keys = None if masked_keys is None else masked_keys[index]
    out = attend(q, k, v, kv, masked_keys, [len(tokens) for tokens in order])
    return out.index_select(0, index.argsort())
