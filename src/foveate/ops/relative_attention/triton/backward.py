"""The backward pass: tiles of queries first, then tiles of keys.

With P = exp(scores - lse), D = rowsum(dO ∘ O) and dS = P ∘ (dO Vᵀ - D):
dQ = scale · dS K, dK = scale · dSᵀ Q, dV = Pᵀ dO; the biases' gradients are sums of dS over the
pairs at a distance, and over a key's queries and heads. A program owns the rows it writes and adds
in a fixed order: gradients are equal bit for bit from run to run.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from .backward_keys import backward_keys
from .backward_queries import backward_queries
from .launch import Scoring


def backward(
    grad: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    o: Tensor,
    lse: Tensor,
    scoring: Scoring,
    q_lengths: Sequence[int],
    k_lengths: Sequence[int],
    of_table: bool,
    of_key_bias: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor | None, Tensor | None]:
    """Gradients of q, k, v, the table of buckets and the key biases, from that of the output.

    `o` and `lse` are what `forward` returned. Those of the biases are float64 and float32; None if
    not asked for.
    """
    dq, dk, dv = (torch.empty(x.shape, dtype=q.dtype, device=q.device) for x in (q, k, v))
    delta, lengths = torch.empty_like(lse), (q_lengths, k_lengths)
    d_bias = backward_queries(q, k, v, o, grad, lse, delta, dq, scoring, *lengths, of_table)
    d_key_bias = backward_keys(q, k, v, grad, lse, delta, dk, dv, scoring, *lengths, of_key_bias)
    return dq, dk, dv, d_bias, d_key_bias
