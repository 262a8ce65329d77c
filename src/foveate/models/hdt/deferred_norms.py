"""HDT's blocks with norms and residual connections inside the products around them.

RMSNorm scales every row by one number. A product of rows that are not scaled yet, with a weight
that includes the norm's, only has to be scaled afterwards, which its own kernel does; and the
kernel that adds an update to the residual can sum the squares that the scale comes from. So in
inference norms need no memory traffic of their own. This is for CUDA graphs on GPUs where QuACK
computes the products. It rounds weights where `HDTBlock` rounds normalized states, with errors that
are no larger.
"""

from typing import Any

import torch
from torch import Tensor, nn

from foveate.ops.linear import concatenate
from foveate.ops.linear.products import add_product, deferred_product
from foveate.ops.rotary import rotate
from foveate.ops.tree_attention import Tree, tree_attention


def run_blocks(
    blocks: nn.ModuleList, hidden_states: Tensor, tree: Tree, rotation: tuple[Tensor, Tensor] | None
) -> Tensor:
    """Apply the blocks to `(tokens, d_model)`; see `HDTBlock`."""
    scales = None
    block: Any
    for block in blocks:
        attention, attention_norm = block.layer[0].SelfAttention, block.layer[0].layer_norm
        feed_forward, feed_forward_norm = block.layer[1].DenseReluDense, block.layer[1].layer_norm
        if scales is None:
            scales = _inverse_rms(hidden_states, attention_norm.eps)
        layers = attention.q, attention.k, attention.v
        weight = concatenate([layer.weight for layer in layers]) * attention_norm.weight
        joint = deferred_product(hidden_states, scales, weight).chunk(3, 1)
        q, k, v = (x.unflatten(1, (attention.num_heads, -1)) for x in joint)
        if rotation is not None:
            q, k = rotate(q, k, *rotation)
        attended = tree_attention(q, k, v, tree, edges=attention.edges).flatten(1)
        weight, eps = attention.o.weight, feed_forward_norm.eps
        hidden_states, scales = add_product(hidden_states, attended, weight, eps)
        weight = feed_forward.wi.weight * feed_forward_norm.weight
        inner = deferred_product(hidden_states, scales, weight, relu=True)
        weight, eps = feed_forward.wo.weight, attention_norm.eps
        hidden_states, scales = add_product(hidden_states, inner, weight, eps)
    return hidden_states


def _inverse_rms(x: Tensor, eps: float) -> Tensor:
    """Compute what RMSNorm scales each row by, `(rows,)` float32."""
    dtype = torch.promote_types(x.dtype, torch.float32)
    norms = torch.linalg.vector_norm(x, dim=1, dtype=dtype)
    return torch.rsqrt(norms.square() / x.shape[1] + eps)
