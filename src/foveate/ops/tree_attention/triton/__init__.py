"""Tree attention on the GPU: tiles of whole families, forward and backward, as torch ops."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from foveate.ops._triton.library import define_op
from foveate.ops._triton.math import adjacent
from foveate.ops._triton.softmax import empty_gradients, empty_outputs
from foveate.ops.differentiation import once_differentiable

from .backward import backward
from .forward import forward
from .partition import ForestTiles

__all__ = ["backward_op", "forward_op", "tree_attention"]


def tree_attention(
    inputs: tuple[Tensor, ...],
    tiles: ForestTiles,
    edges: tuple[bool, bool, bool],
    scale: float,
) -> Tensor:
    """Compute the attention of `(n, heads, head_dim)` within the families of a forest.

    Args:
        inputs: Queries, keys and values, float16, bfloat16 or float32, any strides; or all of them
            in one tensor, `(n, 3, heads, head_dim)`.
        tiles: The tiles of the forest, in the node order of the inputs.
        edges: Whether nodes attend to their parent, their siblings and their children.
        scale: Factor on the scores.
    """
    if torch.is_grad_enabled() and any(x.requires_grad for x in inputs):
        out: Tensor = _TreeAttention.apply(*tiles, *edges, scale, *inputs)
    else:
        out, _ = forward_op(*_separate(inputs), *tiles, *edges, scale)
    return out


def _separate(inputs: Sequence[Tensor]) -> Sequence[Tensor]:
    """Return queries, keys and values."""
    return inputs if len(inputs) == 3 else inputs[0].unbind(1)


_OPTIONS = (
    "Tensor members, Tensor lists, SymInt[] counts, "
    "bool parent, bool siblings, bool children, float scale"
)


@define_op(
    f"tree_attention(Tensor q, Tensor k, Tensor v, {_OPTIONS}) -> (Tensor, Tensor)",
    fake=lambda q, *_: empty_outputs(q),
)
def forward_op(q: Tensor, k: Tensor, v: Tensor, *options: Any) -> tuple[Tensor, Tensor]:
    """Compute the output and the log-sum-exps; see `forward`."""
    *tiles, parent, siblings, children, scale = options
    q, k, v = adjacent(q), adjacent(k), adjacent(v)
    return forward(q, k, v, ForestTiles(*tiles), (parent, siblings, children), scale)


@define_op(
    "tree_attention_backward(Tensor grad, Tensor q, Tensor k, Tensor v, Tensor o, Tensor lse, "
    f"{_OPTIONS}) -> Tensor",
    fake=lambda _, q, *__: empty_gradients(q, 3),
)
def backward_op(
    grad: Tensor, q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Tensor, *options: Any
) -> Tensor:
    """Compute the gradients of q, k and v; see `backward`."""
    *tiles, parent, siblings, children, scale = options
    grad, q, k, v = adjacent(grad), adjacent(q), adjacent(k), adjacent(v)
    edges = parent, siblings, children
    return backward(grad, q, k, v, o, lse, ForestTiles(*tiles), edges, scale)


class _TreeAttention(torch.autograd.Function):
    """Saves the inputs, the output and one float32 per node and head."""

    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> Tensor:
        options, inputs = arguments[:7], arguments[7:]
        out: Tensor
        out, lse = forward_op(*_separate(inputs), *options)
        ctx.save_for_backward(out, lse, *options[:2], *inputs)
        ctx.options = options[2:]
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        out, lse, members, lists, *inputs = ctx.saved_tensors
        tiles = members, lists
        gradients: Tensor = backward_op(grad, *_separate(inputs), out, lse, *tiles, *ctx.options)
        return *[None] * 7, *(gradients.unbind(1) if len(inputs) == 3 else (gradients,))
