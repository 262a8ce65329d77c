"""Sliding window attention, with global keys and values that all queries of a sequence see."""

from collections.abc import Sequence

from torch import Tensor

from foveate.ops._packed.validation import (
    as_lengths,
    check_bias,
    check_lengths,
    check_scale,
    check_self_attention,
)
from foveate.ops.backends import autocast, choose

from . import eager as _eager
from . import reference as _reference
from .global_attention import GlobalKeysValues, check_global_keys_values, global_attention
from .validation import check_masked_keys, check_window

__all__ = ["GlobalKeysValues", "global_attention", "window_attention"]


def window_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    window: tuple[int, int],
    *,
    global_keys_values: GlobalKeysValues | None = None,
    bias: Tensor | None = None,
    masked_keys: Tensor | None = None,
    lengths: Sequence[int] | None = None,
    max_distance: int = 128,
    scale: float | None = None,
    backend: str | None = None,
) -> Tensor:
    """Attend to the tokens around each query and to the global keys, in one softmax.

    With window (l, r), query i of a sequence sees its tokens i - l to i + r that exist and are not
    masked; the score of token j is

        scale · q_i·k_j + bias[bucket(j - i)].

    It also sees all global keys of its sequence that are not masked; the score of the g-th one is

        scale · q_i·global.k_g + global.bias[bucket(g - global.positions[i])].

    In Longformer's and LED's local attention, the global tokens are masked and their keys and
    values are global ones, so that a query sees each of them once. In LongT5's transient-global
    attention, the global keys and values summarize blocks. Memory is linear in the tokens and the
    global tokens, and gradients reach q, k, v, the global keys and values, and the biases.

    Args:
        q: Queries `(tokens, heads, head_dim)`, any floating dtype, of packed sequences. Slices of
            one fused projection are read in place.
        k: Keys, same shape.
        v: Values, same shape.
        window: Tokens to the left and to the right; (256, 256) is Longformer's window of 512.
        global_keys_values: Keys and values that all queries of a sequence see; none if None.
        bias: T5's table `(num_buckets, heads)`, any floating dtype; no bias if None.
        masked_keys: `(tokens,)` bool, True for tokens that no window shows; as queries they attend
            like others.
        lengths: The number of tokens in each sequence, host integers; one sequence if None.
        max_distance: Distance near which the last bucket of the biases begins.
        scale: Factor on the products; 1/√head_dim if None.
        backend: One of `foveate.ops.backends.BACKENDS`; if None, the environment's, or "auto".

    Returns:
        `(tokens, heads, head_dim)` in the dtype of `q`, 0 for a query that sees no key.

    Raises:
        ValueError: If shapes, dtypes, devices or lengths do not match, if the window is below 0, if
            there are too few buckets, if the backend is unknown, or if it cannot run on these
            tensors.

    Example:
        >>> import torch
        >>> q, k, v = torch.randn(3, 7, 2, 8)  # a sequence of five tokens and one of two
        >>> first = torch.tensor([0, 5])  # each begins with a global token
        >>> is_global = torch.zeros(7, dtype=torch.bool).index_fill(0, first, True)
        >>> out = window_attention(
        ...     q,
        ...     k,
        ...     v,
        ...     (1, 1),
        ...     global_keys_values=GlobalKeysValues(k[first], v[first], lengths=[1, 1]),
        ...     masked_keys=is_global,
        ...     lengths=[5, 2],
        ... )
        >>> out.shape
        torch.Size([7, 2, 8])
    """
    q, k, v = autocast(q), autocast(k), autocast(v)
    check_self_attention(q, k, v)
    lengths = check_lengths("lengths", lengths, q)
    check_window(window)
    check_scale(scale)
    check_bias(bias, q)
    check_masked_keys("masked_keys", masked_keys, q)
    if global_keys_values is None:
        kv = GlobalKeysValues(k.detach()[:0], v.detach()[:0], (0,) * len(lengths))
    else:
        global_k, global_v, global_lengths, *others = global_keys_values
        # Not by _replace, whose results are empty in torch 2.11 where they cross a graph break.
        kv = GlobalKeysValues(
            autocast(global_k),
            autocast(global_v),
            as_lengths("global_keys_values.lengths", global_lengths),
            *others,
        )
        check_global_keys_values(kv, q, len(lengths))
    backend = choose(backend, q)
    if q.numel() == 0:
        return q.clone()
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    window = min(window[0], max(lengths)), min(window[1], max(lengths))
    if backend == "reference":
        attend = _reference.window_attention
    elif backend == "triton":
        from .triton import window_attention as attend
    else:
        attend = _eager.window_attention
    return attend(q, k, v, kv, bias, masked_keys, window, lengths, max_distance, scale)
